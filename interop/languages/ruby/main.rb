# What bunny's users do with RabbitMQ, each check by its name (../checks.py says what they mean):
#   ruby main.rb HOST PORT CHECK...
# prints `ok NAME` or `failed NAME: why` for each.

require "bigdecimal"
require "bunny"
require "timeout"

$stdout.sync = true
HOST, PORT, *WANTED = ARGV
PATIENCE_S = 30
OPTIONS = { host: HOST, port: PORT.to_i, log_file: $stderr, log_level: Logger::FATAL }.freeze

class Wrong < StandardError; end

def same(actual, expected, what = "")
  raise Wrong, "#{what} is #{actual.inspect}, not #{expected.inspect}".strip unless actual == expected
end

def like(text, pattern)
  raise Wrong, "#{text.inspect} is not like #{pattern.inspect}" unless pattern.match?(text)
end

def refused(error_class, pattern)
  yield
rescue error_class => error
  like(error.message, pattern)
  error
else
  raise Wrong, "no #{error_class}"
end

def eventually(what)
  deadline = Time.now + PATIENCE_S
  until yield
    raise Wrong, "not in #{PATIENCE_S} s: #{what}" if Time.now > deadline
    sleep 0.005
  end
end

def connect(**options)
  Bunny.new(**OPTIONS, **options).start
end

Message = Struct.new(:delivery, :properties, :body)

# The first messages of a queue. They are acked unless told otherwise.
def take(queue, count, ack: true)
  arrived = Thread::Queue.new
  consumer = queue.subscribe(manual_ack: true) do |delivery, properties, body|
    queue.channel.ack(delivery.delivery_tag) if ack
    arrived << Message.new(delivery, properties, body)
  end
  messages = Timeout.timeout(PATIENCE_S, Wrong, "#{count} messages did not arrive") { Array.new(count) { arrived.pop } }
  consumer.cancel
  messages
end

def bodies(messages) = messages.map(&:body)

# RabbitMQ counts what it has confirmed.
def count(queue)
  same(queue.channel.wait_for_confirms, true, "confirmed")
  queue.message_count
end

CHECKS = {
  "handshake" => lambda do |connection, _|
    properties = connection.server_properties
    same(properties["product"], "RabbitMQ")
    like(properties["version"], /\A\d+\.\d+\.\d+/)
    %w[publisher_confirms exchange_exchange_bindings basic.nack consumer_cancel_notify connection.blocked].each do |name|
      same(properties["capabilities"][name], true, name)
    end
  end,

  "login-refused" => lambda do |_, _|
    refused(Bunny::AuthenticationFailureError, /Authentication with RabbitMQ failed/) { connect(password: "wrong") }
  end,

  "vhost-not-found" => lambda do |_, _|
    refused(Bunny::NotAllowedError, /NOT_ALLOWED - vhost nowhere not found/) { connect(vhost: "nowhere") }
  end,

  "connection-error" => lambda do |_, _|
    connection = connect(recover_from_connection_close: false)
    queue = connection.create_channel.queue("", exclusive: true)
    error = refused(Bunny::NotAllowedError, /NOT_ALLOWED - attempt to reuse consumer tag 'twice'/) do
      2.times { queue.subscribe(consumer_tag: "twice") { nil } }
      sleep PATIENCE_S # it is raised here, in the thread that made the connection
    end
    same(error.connection_close.reply_code, 530)
  end,

  "tls" => lambda do |_, _|
    options = { host: "localhost", port: ENV["TLS_PORT"].to_i, tls: true, verify_peer: true }
    connection = connect(**options, tls_ca_certificates: [ENV["TLS_CA"]])
    queue = connection.create_channel.queue("", exclusive: true)
    queue.publish("x" * 300_000)
    same(bodies(take(queue, 1)), ["x" * 300_000])
    connection.close
    refused(OpenSSL::SSL::SSLError, /certificate verify failed/) { connect(**options) }
  end,

  "small-frames" => lambda do |_, _|
    connection = connect(frame_max: 4096)
    same(connection.frame_max, 4096)
    queue = connection.create_channel.queue("", exclusive: true)
    queue.publish("frames" * 20_000)
    same(bodies(take(queue, 1)), ["frames" * 20_000])
    connection.close
  end,

  "queues" => lambda do |connection, channel|
    queue = channel.queue("", exclusive: true)
    like(queue.name, /\Aamq\.gen-/)
    2.times { |number| queue.publish(number.to_s) }
    same(count(queue), 2)
    same(queue.status, { message_count: 2, consumer_count: 0 })
    queue.purge
    same(count(queue), 0)
    same(connection.queue_exists?(queue.name), true)
    queue.publish("three")
    channel.wait_for_confirms
    same(queue.delete.message_count, 1)
    same(connection.queue_exists?(queue.name), false)
  end,

  "exchanges" => lambda do |_, channel|
    # kind: binding, and what is published with whether it arrives
    {
      direct: [{ routing_key: "red" }, { "red" => true, "blue" => false }],
      fanout: [{}, { "red" => true, "blue" => true }],
      topic: [{ routing_key: "*.red.#" }, { "a.red" => true, "a.red.b.c" => true, "red" => false, "a.b.red" => false }],
      headers: [{ arguments: { "x-match" => "all", "color" => "red", "size" => 3 } }, { "color" => false, "color size" => true }],
    }.each do |kind, (binding, routed)|
      exchange = channel.public_send(kind, "ruby-#{kind}-#{$$}")
      queue = channel.queue("", exclusive: true).bind(exchange, binding)
      publish = lambda do
        routed.each_key do |key|
          headers = { "color" => "red", "size" => 3 }.slice(*key.split) if kind == :headers
          exchange.publish(key, routing_key: key, headers: headers || {})
        end
      end
      publish.call
      expected = routed.select { |_, arrives| arrives }.keys
      same(count(queue), expected.size, kind)
      same(bodies(take(queue, expected.size)), expected, kind)
      queue.unbind(exchange, binding)
      publish.call
      same(count(queue), 0, "#{kind} unbound")
      exchange.delete
    end
  end,

  "exchange-to-exchange" => lambda do |_, channel|
    from = channel.topic("ruby-from-#{$$}")
    to = channel.fanout("ruby-to-#{$$}")
    queue = channel.queue("", exclusive: true).bind(to)
    to.bind(from, routing_key: "a.*")
    from.publish("over two", routing_key: "a.b")
    from.publish("lost", routing_key: "b.b")
    same(bodies(take(queue, 1)), ["over two"])
    to.unbind(from, routing_key: "a.*")
    from.publish("lost", routing_key: "a.b")
    same(count(queue), 0)
    [from, to].each(&:delete)
  end,

  "alternate-exchange" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true).bind("amq.fanout")
    exchange = channel.direct("ruby-alternate-#{$$}", arguments: { "alternate-exchange" => "amq.fanout" })
    exchange.publish("caught", routing_key: "nobody", mandatory: true)
    same(bodies(take(queue, 1)), ["caught"])
    exchange.delete
  end,

  "names" => lambda do |_, channel|
    name = "#{"ü" * 127}!".b # bunny wants bytes
    exchange = channel.direct(name)
    queue = channel.queue(name, exclusive: true).bind(exchange, routing_key: name)
    exchange.publish("x", routing_key: name)
    delivery = take(queue, 1).first.delivery
    same([delivery.exchange, delivery.routing_key], [name, name])
    exchange.delete
  end,

  "properties" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    properties = {
      content_type: "application/json",
      content_encoding: "utf-8",
      headers: { "answer" => 42 },
      delivery_mode: 2,
      priority: 7,
      correlation_id: "correlation",
      reply_to: "somewhere",
      expiration: "60000",
      message_id: "message",
      timestamp: Time.at(1_700_000_000),
      type: "kind",
      user_id: "guest",
      app_id: "interop",
      cluster_id: "cluster",
    }
    queue.publish("{}", properties.merge(timestamp: 1_700_000_000))
    same(take(queue, 1).first.properties.to_h, properties)
  end,

  "headers" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    headers = {
      "string" => "zwölf rabbits",
      "integer" => -(2**62),
      "float" => 0.1,
      "single" => AMQ::Protocol::Float32Bit.new(0.5),
      "yes" => true,
      "no" => false,
      "nothing" => nil,
      "time" => Time.at(1_700_000_000),
      "decimal" => BigDecimal("314"),
      # bunny loses a nil at the end of a list
      "list" => [1, "two", [3, nil, "x"], { "four" => 4 }],
      "table" => { "deep" => { "deeper" => ["x"] } },
    }
    queue.publish("x", headers: headers)
    arrived = take(queue, 1).first.properties.headers
    arrived["string"].force_encoding("utf-8")
    same(arrived, headers.merge("single" => 0.5))
  end,

  "empty-body" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    queue.publish("", type: "empty")
    message = take(queue, 1).first
    same(message.body, "")
    same(message.properties.type, "empty")
  end,

  "large-body" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    body = (0..250).to_a.pack("C*") * 20_000
    queue.publish(body)
    raise Wrong, "another body" unless take(queue, 1).first.body == body
  end,

  "interleaved" => lambda do |connection, channel|
    queue = channel.queue("", exclusive: true)
    sent = Array.new(8) { |number| number.to_s * (1_000_000 + number) }
    channels = sent.map { connection.create_channel }
    channels.zip(sent).map { |each, body| Thread.new { each.default_exchange.publish(body, routing_key: queue.name) } }.each(&:join)
    raise Wrong, "other bodies" unless bodies(take(queue, 8)).sort == sent
  end,

  "acks" => lambda do |connection, channel|
    queue = channel.queue("", exclusive: true)
    ("1".."5").each { |body| queue.publish(body) }
    other = connection.create_channel
    tags = take(other.queue(queue.name, no_declare: true), 5, ack: false).map { |message| message.delivery.delivery_tag }
    other.ack(tags[0])
    other.ack(tags[2], true)
    other.close
    left = take(queue, 2)
    same(bodies(left), %w[4 5])
    same(left.map { |message| message.delivery.redelivered? }, [true, true])
    same(count(queue), 0)
  end,

  "nack-requeue" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    queue.publish("again")
    first = take(queue, 1, ack: false).first
    same(first.delivery.redelivered?, false)
    channel.nack(first.delivery.delivery_tag, false, true)
    second = take(queue, 1).first
    same([second.delivery.redelivered?, second.body], [true, "again"])
  end,

  "reject" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    queue.publish("1")
    channel.reject(take(queue, 1, ack: false).first.delivery.delivery_tag, true)
    second = take(queue, 1, ack: false).first
    same(second.delivery.redelivered?, true)
    channel.reject(second.delivery.delivery_tag)
    same(queue.pop, [nil, nil, nil])
  end,

  "recover" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    queue.publish("again")
    take(queue, 1, ack: false)
    channel.recover
    same(take(queue, 1).first.delivery.redelivered?, true)
  end,

  "prefetch" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    10.times { |number| queue.publish(number.to_s) }
    channel.prefetch(3)
    messages = []
    queue.subscribe(manual_ack: true) { |*message| messages << Message.new(*message) }
    eventually("three messages") { messages.size >= 3 }
    sleep 0.1
    same(bodies(messages), %w[0 1 2])
    channel.ack(messages[0].delivery.delivery_tag)
    eventually("one more") { messages.size >= 4 }
    sleep 0.1
    same(bodies(messages), %w[0 1 2 3])
  end,

  "get" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    %w[1 2].each { |body| queue.publish(body) }
    channel.wait_for_confirms
    delivery, _, body = queue.pop(manual_ack: true)
    same([body, delivery.redelivered?], ["1", false])
    channel.ack(delivery.delivery_tag)
    same(queue.pop.last, "2")
    same(queue.pop, [nil, nil, nil])
  end,

  "cancel" => lambda do |connection, channel|
    queue = channel.queue("", exclusive: true)
    told = Thread::Queue.new
    consumer = queue.subscribe(on_cancellation: ->(cancel) { told << cancel }) { nil }
    connection.create_channel.queue_delete(queue.name)
    cancel = Timeout.timeout(PATIENCE_S, Wrong, "it is not told") { told.pop }
    same(cancel.consumer_tag, consumer.consumer_tag)
  end,

  "confirms" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    1000.times { |number| queue.publish(number.to_s, persistent: number.even?) }
    same(channel.wait_for_confirms, true)
    same(channel.unconfirmed_set.size, 0)
    same(channel.nacked_set.size, 0)
    same(queue.message_count, 1000)
  end,

  "nacks" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true, arguments: { "x-max-length" => 1, "x-overflow" => "reject-publish" })
    queue.publish("fits")
    same(channel.wait_for_confirms, true)
    queue.publish("does not")
    same(channel.wait_for_confirms, false)
    same(channel.nacked_set.to_a, [2])
  end,

  "returns" => lambda do |_, channel|
    returned = Thread::Queue.new
    exchange = channel.direct("amq.direct", durable: true)
    exchange.on_return { |*message| returned << Message.new(*message) }
    exchange.publish("come back", routing_key: "nobody", mandatory: true, message_id: "1")
    message = Timeout.timeout(PATIENCE_S, Wrong, "it does not return") { returned.pop }
    same([message.delivery.reply_code, message.delivery.reply_text], [312, "NO_ROUTE"])
    same([message.delivery.exchange, message.delivery.routing_key], %w[amq.direct nobody])
    same([message.properties.message_id, message.body], ["1", "come back"])
  end,

  "tx" => lambda do |connection, _|
    channel = connection.create_channel
    queue = channel.queue("", exclusive: true)
    channel.tx_select
    queue.publish("never")
    channel.tx_rollback
    queue.publish("once")
    same(queue.message_count, 0)
    channel.tx_commit
    same(bodies(take(queue, 1)), ["once"])
    channel.tx_commit # the ack
    same(queue.message_count, 0)
  end,

  "rpc" => lambda do |connection, channel|
    queue = channel.queue("", exclusive: true)
    server = connection.create_channel
    server.queue(queue.name, no_declare: true).subscribe do |_, properties, body|
      server.default_exchange.publish(body.upcase, routing_key: properties.reply_to, correlation_id: properties.correlation_id)
    end
    answers = Thread::Queue.new
    channel.basic_consume("amq.rabbitmq.reply-to", "", true) { |*message| answers << Message.new(*message) }
    queue.publish("hello", reply_to: "amq.rabbitmq.reply-to", correlation_id: "7")
    answer = Timeout.timeout(PATIENCE_S, Wrong, "no answer") { answers.pop }
    same([answer.body, answer.properties.correlation_id], %w[HELLO 7])
  end,

  "dead-letters" => lambda do |_, channel|
    dead = channel.queue("", exclusive: true)
    arguments = { "x-dead-letter-exchange" => "", "x-dead-letter-routing-key" => dead.name }
    queue = channel.queue("", exclusive: true, arguments: arguments)
    queue.publish("rejected")
    channel.reject(take(queue, 1, ack: false).first.delivery.delivery_tag)
    first = take(dead, 1).first
    queue.publish("expired", expiration: 20)
    second = take(dead, 1).first
    same(bodies([first, second]), %w[rejected expired])
    deaths = first.properties.headers["x-death"]
    same(deaths.size, 1)
    time = deaths.first.delete("time")
    same((time - Time.now).abs < 60, true, time)
    same(deaths.first, { "count" => 1, "reason" => "rejected", "queue" => queue.name, "exchange" => "", "routing-keys" => [queue.name] })
    same(first.properties.headers["x-first-death-reason"], "rejected")
    death = second.properties.headers["x-death"].first
    same([death["reason"], death["original-expiration"]], %w[expired 20])
    same(second.properties.expiration, nil)
  end,

  "quorum" => lambda do |_, channel|
    queue = channel.queue("ruby-quorum-#{$$}", durable: true, arguments: { "x-queue-type" => "quorum" })
    queue.publish("again")
    channel.nack(take(queue, 1, ack: false).first.delivery.delivery_tag, false, true)
    same(take(queue, 1).first.properties.headers["x-delivery-count"], 1)
    queue.delete
  end,

  "priorities" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true, arguments: { "x-max-priority" => 5 })
    [1, 5, 3, 0, 5].each { |priority| queue.publish(priority.to_s, priority: priority) }
    same(count(queue), 5)
    same(bodies(take(queue, 5)), %w[5 5 3 1 0])
  end,

  "ttl" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true, arguments: { "x-message-ttl" => 30 })
    other = channel.queue("", exclusive: true)
    queue.publish("short-lived")
    other.publish("short-lived", expiration: 30)
    other.publish("stays", expiration: 60_000)
    sleep 0.2
    same(queue.pop, [nil, nil, nil])
    same(other.pop.last, "stays")
  end,

  "not-found" => lambda do |connection, channel|
    error = refused(Bunny::NotFound, /NOT_FOUND - no queue 'ruby-nowhere' in vhost '\/'/) { channel.queue("ruby-nowhere", passive: true) }
    same(error.channel_close.reply_code, 404)
    same([channel.closed?, connection.open?], [true, true])
    publisher = connection.create_channel
    publisher.basic_publish("x", "ruby-nowhere", "")
    eventually("the channel is closed") { publisher.closed? }
    eventually("it says why") do
      publisher.queue("")
    rescue Bunny::ChannelAlreadyClosed => error
      error.message.include?("NOT_FOUND - no exchange 'ruby-nowhere' in vhost '/'")
    end
    same(connection.create_channel.open?, true)
  end,

  "precondition-failed" => lambda do |connection, channel|
    name = "ruby-precondition-#{$$}"
    channel.queue(name, exclusive: true, auto_delete: true)
    other = connection.create_channel
    text = /PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '#{name}' in vhost '\/': received 'false' but current is 'true'/
    error = refused(Bunny::PreconditionFailed, text) { other.queue(name, exclusive: true) }
    same(error.channel_close.reply_code, 406)
    told = Thread::Queue.new
    channel.on_error { |_, close| told << close }
    channel.basic_ack(99)
    close = Timeout.timeout(PATIENCE_S, Wrong, "no error") { told.pop }
    same([close.reply_code, close.reply_text], [406, "PRECONDITION_FAILED - unknown delivery tag 99"])
    same(connection.create_channel.open?, true)
  end,

  "access-refused" => lambda do |connection, channel|
    text = /ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq\.\*'/
    error = refused(Bunny::AccessRefused, text) { channel.queue("amq.mine") }
    same(error.channel_close.reply_code, 403)
    queue = connection.create_channel.queue("", exclusive: true)
    queue.subscribe(exclusive: true) { nil }
    refused(Bunny::AccessRefused, /ACCESS_REFUSED - queue '.*' in vhost '\/' in exclusive use/) do
      connection.create_channel.basic_consume(queue.name) { nil }
    end
    same(connection.create_channel.open?, true)
  end,

  "resource-locked" => lambda do |_, channel|
    queue = channel.queue("", exclusive: true)
    other = connect
    text = /RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '#{queue.name}'/
    error = refused(Bunny::ResourceLocked, text) { other.create_channel.queue(queue.name, passive: true) }
    same(error.channel_close.reply_code, 405)
    same(other.create_channel.open?, true)
    other.close
  end,

  "heartbeats" => lambda do |_, _|
    connection = connect(heartbeat: 1, automatically_recover: false)
    same(connection.heartbeat, 1)
    sleep 4
    same(connection.open?, true)
    connection.create_channel.queue("", exclusive: true)
    connection.close
  end,

  "blocked" => lambda do |_, _|
    connection = connect
    told = Thread::Queue.new
    connection.on_blocked { |blocked| told << blocked.reason }
    connection.create_channel.default_exchange.publish("x", routing_key: "anywhere")
    reason = Timeout.timeout(PATIENCE_S, Wrong, "it is not told") { told.pop }
    same(reason, "low on memory")
    same(connection.blocked?, true)
  end,

  "recovery" => lambda do |_, _|
    recovered = Thread::Queue.new
    connection = connect(network_recovery_interval: 0.1, recovery_completed: -> { recovered << true })
    channel = connection.create_channel
    channel.confirm_select
    exchange = channel.topic("ruby-recovery", auto_delete: true)
    queues = [channel.queue("", exclusive: true), channel.queue("ruby-recovery", auto_delete: true)]
    heard = Thread::Queue.new
    queues.each do |queue|
      queue.bind(exchange, routing_key: "news.*").subscribe(manual_ack: true) do |delivery, _, body|
        channel.ack(delivery.delivery_tag)
        heard << body
      end
    end
    send = lambda do |body|
      exchange.publish(body, routing_key: "news.#{body}")
      channel.wait_for_confirms
      arrived = Timeout.timeout(PATIENCE_S, Wrong, "#{body} did not arrive") { queues.map { heard.pop } }
      same(arrived, [body] * queues.size)
    end
    send.call("before")
    puts "restart"
    Timeout.timeout(PATIENCE_S, Wrong, "it did not recover") { recovered.pop }
    send.call("after")
    connection.close
  end,
}.freeze

WANTED.each do |name|
  connection = connect
  begin
    channel = connection.create_channel
    channel.confirm_select
    Timeout.timeout(PATIENCE_S * 2) { CHECKS.fetch(name).call(connection, channel) }
    puts "ok #{name}"
  ensure
    connection.close unless %w[blocked recovery].include?(name)
  end
rescue StandardError, Timeout::Error => e
  warn e.full_message(highlight: false)
  puts "failed #{name}: #{e.class} #{e.message.tr("\n", " ")}"
end
exit! # a blocked connection is not to be closed with manners
