// What users of RabbitMQ's Java client do, each check by its name (../checks.py says what they mean):
//   java Main HOST PORT CHECK...
// prints `ok NAME` or `failed NAME: why` for each.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.BlockedListener;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.Method;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.StringRpcServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigDecimal;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.TrustManagerFactory;

public final class Main {
    static final int PATIENCE_S = 30;
    static final long TAG = ProcessHandle.current().pid();
    static String host;
    static int port;

    interface Check {
        void run(Session session) throws Exception;
    }

    interface Attempt {
        void run() throws Exception;
    }

    @SuppressWarnings("serial")
    static final class Wrong extends Exception {
        Wrong(String text) {
            super(text);
        }
    }

    static void same(Object actual, Object expected, Object... what) throws Wrong {
        if (!Objects.equals(actual, expected)) {
            throw new Wrong(Arrays.toString(what) + " is " + actual + ", not " + expected);
        }
    }

    static void like(String text, String pattern) throws Wrong {
        if (!text.matches(pattern)) {
            throw new Wrong(text + " is not like " + pattern);
        }
    }

    static <T> T next(BlockingQueue<T> values, String what) throws Exception {
        T value = values.poll(PATIENCE_S, TimeUnit.SECONDS);
        if (value == null) {
            throw new Wrong("not in time: " + what);
        }
        return value;
    }

    static <E extends Exception> E fails(Class<E> kind, Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (Exception error) {
            if (kind.isInstance(error)) {
                return kind.cast(error);
            }
            throw error;
        }
        throw new Wrong("no " + kind.getSimpleName());
    }

    /** The broker closes the channel, or the connection, with this code and text. */
    static void refused(int code, String pattern, Attempt attempt) throws Exception {
        IOException error = fails(IOException.class, attempt);
        refused(code, pattern, (ShutdownSignalException) error.getCause());
    }

    static void refused(int code, String pattern, ShutdownSignalException error) throws Exception {
        Method reason = error.getReason();
        if (reason instanceof AMQP.Channel.Close) {
            same(((AMQP.Channel.Close) reason).getReplyCode(), code, "code");
            like(((AMQP.Channel.Close) reason).getReplyText(), pattern);
        } else {
            same(((AMQP.Connection.Close) reason).getReplyCode(), code, "code");
            like(((AMQP.Connection.Close) reason).getReplyText(), pattern);
        }
    }

    static ConnectionFactory factory() {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(host);
        factory.setPort(port);
        factory.setNetworkRecoveryInterval(100);
        return factory;
    }

    /** A connection and a channel, with what users write around them. */
    static final class Session implements AutoCloseable {
        final Connection connection;
        final Channel channel;

        Session(Connection connection) throws IOException {
            this.connection = connection;
            this.channel = connection.createChannel();
        }

        Session(ConnectionFactory factory) throws Exception {
            this(factory.newConnection());
        }

        Session confirming() throws IOException {
            channel.confirmSelect();
            return this;
        }

        @Override
        public void close() {
            connection.abort();
        }

        String queue() throws IOException {
            return queue(null);
        }

        String queue(Map<String, Object> arguments) throws IOException {
            return channel.queueDeclare("", false, true, false, arguments).getQueue();
        }

        void publish(String queue, String body) throws Exception {
            publish("", queue, null, body.getBytes("UTF-8"));
        }

        void publish(String queue, BasicProperties properties, String body) throws Exception {
            publish("", queue, properties, body.getBytes("UTF-8"));
        }

        void publish(String exchange, String key, BasicProperties properties, byte[] body) throws Exception {
            channel.basicPublish(exchange, key, properties, body);
            if (channel.getNextPublishSeqNo() != 0) {
                channel.waitForConfirmsOrDie(PATIENCE_S * 1000L);
            }
        }

        long count(String queue) throws IOException {
            return channel.messageCount(queue);
        }

        BlockingQueue<Delivery> consume(String queue, String tag) throws IOException {
            BlockingQueue<Delivery> arrived = new LinkedBlockingQueue<>();
            channel.basicConsume(queue, false, tag, new DefaultConsumer(channel) {
                @Override
                public void handleDelivery(String tag, Envelope envelope, BasicProperties properties, byte[] body) {
                    arrived.add(new Delivery(envelope, properties, body));
                }
            });
            return arrived;
        }

        /** The first messages of a queue, unacked. */
        List<Delivery> hold(String queue, int count) throws Exception {
            BlockingQueue<Delivery> arrived = consume(queue, "taker");
            List<Delivery> messages = new ArrayList<>();
            while (messages.size() < count) {
                messages.add(next(arrived, count + " messages"));
            }
            channel.basicCancel("taker");
            return messages;
        }

        List<Delivery> take(String queue, int count) throws Exception {
            List<Delivery> messages = hold(queue, count);
            for (Delivery message : messages) {
                channel.basicAck(tag(message), false);
            }
            return messages;
        }

        Delivery take(String queue) throws Exception {
            return take(queue, 1).get(0);
        }
    }

    static long tag(Delivery message) {
        return message.getEnvelope().getDeliveryTag();
    }

    static boolean isRedelivered(Delivery message) {
        return message.getEnvelope().isRedeliver();
    }

    static List<String> bodies(List<Delivery> messages) {
        return messages.stream().map(message -> new String(message.getBody())).collect(Collectors.toList());
    }

    static String body(Delivery message) {
        return new String(message.getBody());
    }

    static BasicProperties.Builder with() {
        return new BasicProperties.Builder();
    }

    /** Strings are LongStrings when they come back, and bytes have no equals. */
    static Object plain(Object value) {
        if (value instanceof LongString) {
            return value.toString();
        } else if (value instanceof byte[]) {
            return "bytes " + Base64.getEncoder().encodeToString((byte[]) value);
        } else if (value instanceof List) {
            return ((List<?>) value).stream().map(Main::plain).collect(Collectors.toList());
        } else if (value instanceof Map) {
            Map<Object, Object> table = new HashMap<>();
            ((Map<?, ?>) value).forEach((name, field) -> table.put(name, plain(field)));
            return table;
        }
        return value;
    }

    static Map<String, Object> table(Object... pairs) {
        Map<String, Object> table = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            table.put((String) pairs[at], pairs[at + 1]);
        }
        return table;
    }

    static final Map<String, Check> CHECKS = new HashMap<>();

    static {
        CHECKS.put("handshake", s -> {
            Map<String, Object> properties = s.connection.getServerProperties();
            same(properties.get("product").toString(), "RabbitMQ");
            like(properties.get("version").toString(), "\\d+\\.\\d+\\.\\d+.*");
            Map<?, ?> capabilities = (Map<?, ?>) properties.get("capabilities");
            for (String name : List.of("publisher_confirms", "exchange_exchange_bindings", "basic.nack",
                    "consumer_cancel_notify", "connection.blocked", "authentication_failure_close")) {
                same(capabilities.get(name), true, name);
            }
        });

        CHECKS.put("login-refused", s -> {
            ConnectionFactory factory = factory();
            factory.setPassword("wrong");
            Exception error = fails(AuthenticationFailureException.class, factory::newConnection);
            like(error.getMessage(), "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN\\..*");
        });

        CHECKS.put("vhost-not-found", s -> {
            ConnectionFactory factory = factory();
            factory.setVirtualHost("nowhere");
            refused(530, "NOT_ALLOWED - vhost nowhere not found", factory::newConnection);
        });

        CHECKS.put("connection-error", s -> {
            try (Session other = new Session(factory())) {
                BlockingQueue<ShutdownSignalException> told = new LinkedBlockingQueue<>();
                other.connection.addShutdownListener(told::add);
                String queue = other.queue();
                other.consume(queue, "twice");
                String text = "NOT_ALLOWED - attempt to reuse consumer tag 'twice'";
                refused(530, text, () -> other.consume(queue, "twice"));
                refused(530, text, next(told, "the close"));
            }
        });

        CHECKS.put("tls", s -> {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            try (InputStream file = new FileInputStream(System.getenv("TLS_CA"))) {
                store.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            ConnectionFactory factory = factory();
            factory.setPort(Integer.parseInt(System.getenv("TLS_PORT")));
            factory.useSslProtocol(context);
            try (Session other = new Session(factory)) {
                String queue = other.queue();
                other.publish(queue, "x".repeat(300_000));
                same(body(other.take(queue)), "x".repeat(300_000));
            }
            factory.useSslProtocol(SSLContext.getDefault());
            fails(SSLException.class, factory::newConnection);
        });

        CHECKS.put("small-frames", s -> {
            ConnectionFactory factory = factory();
            factory.setRequestedFrameMax(4096);
            try (Session other = new Session(factory)) {
                same(other.connection.getFrameMax(), 4096);
                String queue = other.queue();
                other.publish(queue, "frames".repeat(20_000));
                same(body(other.take(queue)), "frames".repeat(20_000));
            }
        });

        CHECKS.put("queues", s -> {
            String queue = s.queue();
            like(queue, "amq\\.gen-.*");
            s.publish(queue, "one");
            s.publish(queue, "two");
            AMQP.Queue.DeclareOk found = s.channel.queueDeclarePassive(queue);
            same(List.of(found.getQueue(), found.getMessageCount(), found.getConsumerCount()), List.of(queue, 2, 0));
            same(s.channel.queuePurge(queue).getMessageCount(), 2);
            same(s.count(queue), 0L);
            s.publish(queue, "three");
            same(s.channel.queueDelete(queue).getMessageCount(), 1);
            refused(404, "NOT_FOUND - .*", () -> s.channel.queueDeclarePassive(queue));
        });

        CHECKS.put("exchanges", s -> {
            kind(s, BuiltinExchangeType.DIRECT, "red", null, List.of("red"), List.of("blue"));
            kind(s, BuiltinExchangeType.FANOUT, "", null, List.of("red", "blue"), List.of());
            kind(s, BuiltinExchangeType.TOPIC, "*.red.#", null, List.of("a.red", "a.red.b.c"), List.of("red", "a.b.red"));
            Map<String, Object> match = table("x-match", "all", "color", "red", "size", 3);
            kind(s, BuiltinExchangeType.HEADERS, "", match, List.of("color size"), List.of("color"));
        });

        CHECKS.put("exchange-to-exchange", s -> {
            String from = "java-from-" + TAG;
            String to = "java-to-" + TAG;
            String queue = s.queue();
            s.channel.exchangeDeclare(from, BuiltinExchangeType.TOPIC);
            s.channel.exchangeDeclare(to, BuiltinExchangeType.FANOUT);
            s.channel.queueBind(queue, to, "");
            s.channel.exchangeBind(to, from, "a.*");
            s.publish(from, "a.b", null, "over two".getBytes());
            s.publish(from, "b.b", null, "lost".getBytes());
            same(body(s.take(queue)), "over two");
            s.channel.exchangeUnbind(to, from, "a.*");
            s.publish(from, "a.b", null, "lost".getBytes());
            same(s.count(queue), 0L);
            s.channel.exchangeDelete(from);
            s.channel.exchangeDelete(to);
        });

        CHECKS.put("alternate-exchange", s -> {
            String exchange = "java-alternate-" + TAG;
            String queue = s.queue();
            s.channel.queueBind(queue, "amq.fanout", "");
            Map<String, Object> arguments = table("alternate-exchange", "amq.fanout");
            s.channel.exchangeDeclare(exchange, BuiltinExchangeType.DIRECT, false, false, arguments);
            s.publish(exchange, "nobody", null, "caught".getBytes());
            same(body(s.take(queue)), "caught");
            s.channel.exchangeDelete(exchange);
        });

        CHECKS.put("names", s -> {
            String name = "ü".repeat(127) + "!";
            s.channel.exchangeDeclare(name, BuiltinExchangeType.DIRECT);
            s.channel.queueDeclare(name, false, true, false, null);
            s.channel.queueBind(name, name, name);
            s.publish(name, name, null, "x".getBytes());
            Envelope envelope = s.take(name).getEnvelope();
            same(List.of(envelope.getExchange(), envelope.getRoutingKey()), List.of(name, name));
            s.channel.exchangeDelete(name);
        });

        CHECKS.put("properties", s -> {
            String queue = s.queue();
            BasicProperties sent = with().contentType("application/json").contentEncoding("utf-8")
                    .headers(table("answer", 42)).deliveryMode(2).priority(7).correlationId("correlation")
                    .replyTo("somewhere").expiration("60000").messageId("message").timestamp(new Date(1_700_000_000_000L))
                    .type("kind").userId("guest").appId("interop").clusterId("cluster").build();
            s.publish(queue, sent, "{}");
            Delivery got = s.take(queue);
            same(got.getProperties().toString(), sent.toString());
            same(List.of(got.getEnvelope().getExchange(), got.getEnvelope().getRoutingKey()), List.of("", queue));
        });

        CHECKS.put("headers", s -> {
            String queue = s.queue();
            Map<String, Object> sent = table("string", "zwölf rabbits", "yes", true, "no", false, "nothing", null,
                    "bytes", new byte[] {0, 1, -1}, "byte", (byte) -100, "short", (short) -30_000, "integer", -(1 << 30),
                    "long", -(1L << 62), "float", 0.5f, "double", 0.1, "decimal", new BigDecimal("3.14"),
                    "time", new Date(1_700_000_000_000L),
                    "list", Arrays.asList(1, "two", Arrays.asList(3L, null), table("four", (short) 4)),
                    "table", table("deep", table("deeper", List.of("x"))));
            s.publish(queue, with().headers(sent).build(), "x");
            same(plain(s.take(queue).getProperties().getHeaders()), plain(sent));
        });

        CHECKS.put("empty-body", s -> {
            String queue = s.queue();
            s.publish(queue, with().type("empty").build(), "");
            Delivery got = s.take(queue);
            same(List.of(got.getBody().length, got.getProperties().getType()), List.of(0, "empty"));
        });

        CHECKS.put("large-body", s -> {
            String queue = s.queue();
            byte[] large = new byte[251 * 20_000];
            for (int at = 0; at < large.length; at++) {
                large[at] = (byte) (at % 251);
            }
            s.publish("", queue, null, large);
            same(Arrays.equals(s.take(queue).getBody(), large), true, "the same body");
        });

        CHECKS.put("interleaved", s -> {
            String queue = s.queue();
            List<String> sent = new ArrayList<>();
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < 8; number++) {
                String text = Integer.toString(number).repeat(1_000_000 + number);
                sent.add(text);
                Channel channel = s.connection.createChannel();
                threads.add(new Thread(() -> {
                    try {
                        channel.basicPublish("", queue, null, text.getBytes());
                    } catch (IOException error) {
                        error.printStackTrace();
                    }
                }));
            }
            threads.forEach(Thread::start);
            List<String> got = bodies(s.take(queue, 8));
            Collections.sort(got);
            same(got.equals(sent), true, "the same bodies");
        });

        CHECKS.put("acks", s -> {
            String queue = s.queue();
            for (String text : List.of("1", "2", "3", "4", "5")) {
                s.publish(queue, text);
            }
            Session other = new Session(s.connection);
            List<Delivery> held = other.hold(queue, 5);
            other.channel.basicAck(tag(held.get(0)), false);
            other.channel.basicAck(tag(held.get(2)), true);
            other.channel.close();
            List<Delivery> left = s.take(queue, 2);
            same(bodies(left), List.of("4", "5"));
            same(List.of(isRedelivered(left.get(0)), isRedelivered(left.get(1))), List.of(true, true));
            same(s.count(queue), 0L);
        });

        CHECKS.put("nack-requeue", s -> {
            String queue = s.queue();
            s.publish(queue, "again");
            Delivery first = s.hold(queue, 1).get(0);
            same(isRedelivered(first), false);
            s.channel.basicNack(tag(first), false, true);
            Delivery second = s.take(queue);
            same(List.of(isRedelivered(second), body(second)), List.of(true, "again"));
        });

        CHECKS.put("reject", s -> {
            String queue = s.queue();
            s.publish(queue, "1");
            s.channel.basicReject(tag(s.hold(queue, 1).get(0)), true);
            Delivery second = s.hold(queue, 1).get(0);
            same(isRedelivered(second), true);
            s.channel.basicReject(tag(second), false);
            same(s.channel.basicGet(queue, true), null);
        });

        CHECKS.put("recover", s -> {
            String queue = s.queue();
            s.publish(queue, "again");
            s.hold(queue, 1);
            s.channel.basicRecover(true);
            same(isRedelivered(s.take(queue)), true);
        });

        CHECKS.put("prefetch", s -> {
            String queue = s.queue();
            for (int number = 0; number < 10; number++) {
                s.publish(queue, Integer.toString(number));
            }
            s.channel.basicQos(3);
            BlockingQueue<Delivery> arrived = s.consume(queue, "slow");
            Delivery first = next(arrived, "one");
            next(arrived, "two");
            next(arrived, "three");
            same(arrived.poll(100, TimeUnit.MILLISECONDS), null);
            s.channel.basicAck(tag(first), false);
            same(body(next(arrived, "one more")), "3");
            same(arrived.poll(100, TimeUnit.MILLISECONDS), null);
        });

        CHECKS.put("get", s -> {
            String queue = s.queue();
            s.publish(queue, "1");
            s.publish(queue, "2");
            GetResponse got = s.channel.basicGet(queue, false);
            same(List.of(new String(got.getBody()), got.getMessageCount(), got.getEnvelope().isRedeliver()),
                    List.of("1", 1, false));
            s.channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
            same(s.channel.basicGet(queue, true).getMessageCount(), 0);
            same(s.channel.basicGet(queue, true), null);
        });

        CHECKS.put("cancel", s -> {
            String queue = s.queue();
            BlockingQueue<String> told = new LinkedBlockingQueue<>();
            s.channel.basicConsume(queue, false, "watcher", new DefaultConsumer(s.channel) {
                @Override
                public void handleCancel(String tag) {
                    told.add(tag);
                }
            });
            s.connection.createChannel().queueDelete(queue);
            same(next(told, "the cancel"), "watcher");
        });

        CHECKS.put("confirms", s -> {
            String queue = s.queue();
            for (int number = 0; number < 1000; number++) {
                BasicProperties properties = with().deliveryMode(1 + number % 2).build();
                s.channel.basicPublish("", queue, properties, Integer.toString(number).getBytes());
            }
            same(s.channel.waitForConfirms(PATIENCE_S * 1000L), true);
            same(s.channel.getNextPublishSeqNo(), 1001L);
            same(s.count(queue), 1000L);
        });

        CHECKS.put("nacks", s -> {
            String queue = s.queue(table("x-max-length", 1, "x-overflow", "reject-publish"));
            s.publish(queue, "fits");
            s.channel.basicPublish("", queue, null, "does not".getBytes());
            same(s.channel.waitForConfirms(PATIENCE_S * 1000L), false);
        });

        CHECKS.put("returns", s -> {
            BlockingQueue<List<Object>> returned = new LinkedBlockingQueue<>();
            s.channel.addReturnListener((code, text, exchange, key, properties, body) -> returned
                    .add(List.of(code, text, exchange, key, properties.getMessageId(), new String(body))));
            BasicProperties properties = with().messageId("1").build();
            s.channel.basicPublish("amq.direct", "nobody", true, properties, "come back".getBytes());
            same(next(returned, "the return"), List.of(312, "NO_ROUTE", "amq.direct", "nobody", "1", "come back"));
        });

        CHECKS.put("tx", s -> {
            Session other = new Session(s.connection);
            String queue = other.queue();
            other.channel.txSelect();
            other.publish(queue, "never");
            other.channel.txRollback();
            other.publish(queue, "once");
            same(other.count(queue), 0L);
            other.channel.txCommit();
            same(body(other.take(queue)), "once");
            other.channel.txCommit(); // the ack
            same(other.count(queue), 0L);
        });

        CHECKS.put("rpc", s -> {
            String queue = s.queue();
            StringRpcServer server = new StringRpcServer(s.connection.createChannel(), queue) {
                @Override
                public String handleStringCall(String request, BasicProperties replyProperties) {
                    return request.toUpperCase();
                }
            };
            Thread thread = new Thread(() -> {
                try {
                    server.mainloop();
                } catch (IOException | ShutdownSignalException end) {
                    // the connection is closed
                }
            });
            thread.setDaemon(true);
            thread.start();
            RpcClient client = new RpcClient(new Session(s.connection).channel, "", queue, PATIENCE_S * 1000);
            same(client.stringCall("hello"), "HELLO");
            same(client.stringCall("again"), "AGAIN");
            client.close();
        });

        CHECKS.put("dead-letters", s -> {
            String dead = s.queue();
            String queue = s.queue(table("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead));
            s.publish(queue, "rejected");
            s.channel.basicReject(tag(s.hold(queue, 1).get(0)), false);
            Delivery first = s.take(dead);
            s.publish(queue, with().expiration("20").build(), "expired");
            Delivery second = s.take(dead);
            same(bodies(List.of(first, second)), List.of("rejected", "expired"));
            Map<?, ?> headers = (Map<?, ?>) plain(first.getProperties().getHeaders());
            Map<?, ?> death = (Map<?, ?>) ((List<?>) headers.get("x-death")).get(0);
            Date time = (Date) death.remove("time");
            same(Math.abs(System.currentTimeMillis() - time.getTime()) < 60_000, true, time);
            same(death, table("count", 1L, "reason", "rejected", "queue", queue, "exchange", "",
                    "routing-keys", List.of(queue)));
            same(headers.get("x-first-death-reason"), "rejected");
            headers = (Map<?, ?>) plain(second.getProperties().getHeaders());
            death = (Map<?, ?>) ((List<?>) headers.get("x-death")).get(0);
            same(List.of(death.get("reason"), death.get("original-expiration")), List.of("expired", "20"));
            same(second.getProperties().getExpiration(), null);
        });

        CHECKS.put("quorum", s -> {
            String queue = "java-quorum-" + TAG;
            s.channel.queueDeclare(queue, true, false, false, table("x-queue-type", "quorum"));
            s.publish(queue, "again");
            s.channel.basicNack(tag(s.hold(queue, 1).get(0)), false, true);
            same(s.take(queue).getProperties().getHeaders().get("x-delivery-count"), 1L);
            s.channel.queueDelete(queue);
        });

        CHECKS.put("priorities", s -> {
            String queue = s.queue(table("x-max-priority", 5));
            for (int priority : new int[] {1, 5, 3, 0, 5}) {
                s.publish(queue, with().priority(priority).build(), Integer.toString(priority));
            }
            same(bodies(s.take(queue, 5)), List.of("5", "5", "3", "1", "0"));
        });

        CHECKS.put("ttl", s -> {
            String queue = s.queue(table("x-message-ttl", 30));
            String other = s.queue();
            s.publish(queue, "short-lived");
            s.publish(other, with().expiration("30").build(), "short-lived");
            s.publish(other, with().expiration("60000").build(), "stays");
            Thread.sleep(200);
            same(s.channel.basicGet(queue, true), null);
            same(new String(s.channel.basicGet(other, true).getBody()), "stays");
        });

        CHECKS.put("not-found", s -> {
            refused(404, "NOT_FOUND - no queue 'java-nowhere' in vhost '/'",
                    () -> s.channel.queueDeclarePassive("java-nowhere"));
            same(List.of(s.channel.isOpen(), s.connection.createChannel().isOpen()), List.of(false, true));
        });

        CHECKS.put("precondition-failed", s -> {
            String name = "java-precondition-" + TAG;
            s.channel.queueDeclare(name, false, true, true, null);
            Channel other = s.connection.createChannel();
            refused(406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '" + name
                    + "' in vhost '/': received 'false' but current is 'true'",
                    () -> other.queueDeclare(name, false, true, false, null));
            BlockingQueue<ShutdownSignalException> told = new LinkedBlockingQueue<>();
            s.channel.addShutdownListener(told::add);
            s.channel.basicAck(99, false);
            refused(406, "PRECONDITION_FAILED - unknown delivery tag 99", next(told, "the close"));
            same(s.connection.createChannel().isOpen(), true);
        });

        CHECKS.put("access-refused", s -> {
            refused(403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq\\.\\*'",
                    () -> s.channel.queueDeclare("amq.mine", false, false, false, null));
            same(s.connection.createChannel().isOpen(), true);
        });

        CHECKS.put("resource-locked", s -> {
            String queue = s.queue();
            try (Session other = new Session(factory())) {
                refused(405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + queue + "' in vhost '/'.*",
                        () -> other.channel.queueDeclarePassive(queue));
                same(other.connection.createChannel().isOpen(), true);
            }
        });

        CHECKS.put("heartbeats", s -> {
            ConnectionFactory factory = factory();
            factory.setRequestedHeartbeat(1);
            factory.setAutomaticRecoveryEnabled(false);
            try (Session other = new Session(factory)) {
                same(other.connection.getHeartbeat(), 1);
                Thread.sleep(4000);
                same(other.connection.isOpen(), true);
                other.queue();
            }
        });

        CHECKS.put("blocked", s -> {
            BlockingQueue<String> told = new LinkedBlockingQueue<>();
            s.connection.addBlockedListener(new BlockedListener() {
                @Override
                public void handleBlocked(String reason) {
                    told.add(reason);
                }

                @Override
                public void handleUnblocked() {}
            });
            s.channel.basicPublish("", "anywhere", null, "x".getBytes());
            same(next(told, "the news"), "low on memory");
        });

        CHECKS.put("recovery", s -> {
            BlockingQueue<Boolean> recovered = new LinkedBlockingQueue<>();
            ((Recoverable) s.connection).addRecoveryListener(new RecoveryListener() {
                @Override
                public void handleRecovery(Recoverable recoverable) {
                    recovered.add(true);
                }

                @Override
                public void handleRecoveryStarted(Recoverable recoverable) {}
            });
            s.confirming();
            String exchange = "java-recovery";
            s.channel.exchangeDeclare(exchange, BuiltinExchangeType.TOPIC, false, true, null);
            List<String> queues = List.of(s.queue(), s.channel.queueDeclare("java-recovery", false, false, true, null).getQueue());
            BlockingQueue<String> heard = new LinkedBlockingQueue<>();
            for (String queue : queues) {
                s.channel.queueBind(queue, exchange, "news.*");
                s.channel.basicConsume(queue, false, new DefaultConsumer(s.channel) {
                    @Override
                    public void handleDelivery(String tag, Envelope envelope, BasicProperties properties, byte[] body)
                            throws IOException {
                        getChannel().basicAck(envelope.getDeliveryTag(), false);
                        heard.add(new String(body));
                    }
                });
            }
            for (String text : List.of("before", "after")) {
                s.publish(exchange, "news." + text, null, text.getBytes());
                same(List.of(next(heard, text), next(heard, text)), List.of(text, text));
                if (text.equals("before")) {
                    System.out.println("restart");
                    next(recovered, "recovery");
                }
            }
        });
    }

    /** An exchange of this kind routes some keys and loses others; unbound, all. Keys of headers are names of headers. */
    static void kind(Session s, BuiltinExchangeType kind, String key, Map<String, Object> arguments, List<String> routed,
            List<String> lost) throws Exception {
        String exchange = "java-" + kind.getType() + "-" + TAG;
        String queue = s.queue();
        s.channel.exchangeDeclare(exchange, kind);
        s.channel.queueBind(queue, exchange, key, arguments);
        Attempt publish = () -> {
            for (List<String> keys : List.of(routed, lost)) {
                for (String each : keys) {
                    Map<String, Object> headers = new HashMap<>();
                    for (String name : each.split(" ")) {
                        if (arguments != null) {
                            headers.put(name, arguments.get(name));
                        }
                    }
                    s.publish(exchange, each, with().headers(headers).build(), each.getBytes());
                }
            }
        };
        publish.run();
        same(s.count(queue), (long) routed.size(), kind);
        same(bodies(s.take(queue, routed.size())), routed, kind);
        s.channel.queueUnbind(queue, exchange, key, arguments);
        publish.run();
        same(s.count(queue), 0L, kind, "unbound");
        s.channel.exchangeDelete(exchange);
    }

    public static void main(String[] words) {
        host = words[0];
        port = Integer.parseInt(words[1]);
        for (String name : Arrays.asList(words).subList(2, words.length)) {
            boolean isPlain = name.equals("blocked") || name.equals("tx");
            try (Session session = new Session(factory())) {
                CHECKS.get(name).run(isPlain ? session : session.confirming());
                System.out.println("ok " + name);
            } catch (Exception error) {
                error.printStackTrace();
                System.out.println("failed " + name + ": " + error.toString().replace("\n", " "));
            }
        }
        Runtime.getRuntime().halt(0); // threads of the client's, and of servers that serve on
    }
}
