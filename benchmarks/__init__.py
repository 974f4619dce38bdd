"""Side-by-side load tests of AMQP brokers. A broker under test is always another process, never imported here."""
