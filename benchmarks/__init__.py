"""Load tests that compare AMQP brokers. A broker under test is always another process and never imported here."""
