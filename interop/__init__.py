"""Stock clients against a running broker over real sockets. Nothing here is imported by the product."""
