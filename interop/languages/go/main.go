// What users of amqp091-go do with RabbitMQ, each check by its name (../checks.py says what they mean):
//
//	main HOST PORT CHECK...
//
// prints `ok NAME` or `failed NAME: why` for each.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 30 * time.Second

var (
	where      = os.Args[1] + ":" + os.Args[2]
	background = context.Background()
	tag        = fmt.Sprint(os.Getpid())
)

// What a check found wrong. Checks panic with it, or with the client's error; main tells of either.
type wrong string

func same(actual, expected any, what ...any) {
	if !reflect.DeepEqual(actual, expected) {
		panic(wrong(fmt.Sprintf("%v is %#v, not %#v", what, actual, expected)))
	}
}

func like(text, pattern string) {
	if !regexp.MustCompile(pattern).MatchString(text) {
		panic(wrong(fmt.Sprintf("%q is not like %q", text, pattern)))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func next[T any](values <-chan T, what string) T {
	select {
	case value, open := <-values:
		if !open {
			panic(wrong("closed before " + what))
		}
		return value
	case <-time.After(patience):
		panic(wrong("not in time: " + what))
	}
}

func refused(err error, code int, pattern string) {
	var refusal *amqp.Error
	if !errors.As(err, &refusal) {
		panic(wrong(fmt.Sprintf("not refused: %v", err)))
	}
	same(refusal.Code, code, "code")
	like(refusal.Reason, pattern)
}

// A connection and a channel of it, with what users write around them.
type session struct {
	connection *amqp.Connection
	*amqp.Channel
	confirmed chan amqp.Confirmation // nil: not in confirm mode
}

func url(user string) string { return "amqp://" + user + "@" + where + "/" }

func connect() session { return open(must(amqp.Dial(url("guest:guest")))) }

func open(connection *amqp.Connection) session {
	return session{connection, must(connection.Channel()), nil}
}

func (s session) confirming() session {
	check(s.Confirm(false))
	s.confirmed = s.NotifyPublish(make(chan amqp.Confirmation, 1000))
	return s
}

func (s session) queue(arguments amqp.Table) string {
	return must(s.QueueDeclare("", false, false, true, false, arguments)).Name
}

// Publishes to the default exchange, or another, and waits for the confirm. (A DeferredConfirmation misses one that
// comes at once.)
func (s session) publish(queue string, message amqp.Publishing) { s.publishTo("", queue, message) }

func (s session) publishTo(exchange, key string, message amqp.Publishing) {
	check(s.PublishWithContext(background, exchange, key, false, false, message))
	if s.confirmed != nil {
		same(next(s.confirmed, "the confirm").Ack, true, "confirmed")
	}
}

func (s session) count(queue string) int {
	return must(s.QueueDeclarePassive(queue, false, false, true, false, nil)).Messages
}

// The first messages of a queue, unacked.
func (s session) hold(queue string, count int) (messages []amqp.Delivery) {
	const consumer = "taker"
	deliveries := must(s.Consume(queue, consumer, false, false, false, false, nil))
	for len(messages) < count {
		messages = append(messages, next(deliveries, fmt.Sprintf("%d messages", count)))
	}
	check(s.Cancel(consumer, false))
	return
}

func (s session) take(queue string, count int) []amqp.Delivery {
	messages := s.hold(queue, count)
	for _, message := range messages {
		check(message.Ack(false))
	}
	return messages
}

func (s session) isEmpty(queue string) {
	_, found, err := s.Get(queue, true)
	check(err)
	same(found, false, "a message")
}

func body(text string) amqp.Publishing { return amqp.Publishing{Body: []byte(text)} }

func bodies(messages []amqp.Delivery) (texts []string) {
	for _, message := range messages {
		texts = append(texts, string(message.Body))
	}
	return
}

var checks = map[string]func(session){
	"handshake": func(s session) {
		same(s.connection.Properties["product"], "RabbitMQ")
		like(s.connection.Properties["version"].(string), `^\d+\.\d+\.\d+`)
		capabilities := s.connection.Properties["capabilities"].(amqp.Table)
		for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
			"consumer_cancel_notify", "connection.blocked"} {
			same(capabilities[name], true, name)
		}
	},

	"login-refused": func(session) {
		_, err := amqp.Dial(url("guest:wrong"))
		refused(err, 403, "username or password not allowed")
	},

	"vhost-not-found": func(session) {
		_, err := amqp.Dial(url("guest:guest") + "nowhere")
		refused(err, 403, "no access to this vhost") // its words for 530
	},

	"connection-error": func(session) {
		s := connect()
		closed := s.connection.NotifyClose(make(chan *amqp.Error, 1))
		queue := s.queue(nil)
		must(s.Consume(queue, "twice", false, false, false, false, nil))
		s.Consume(queue, "twice", false, false, false, true, nil)
		refused(next(closed, "the close"), 530, "^NOT_ALLOWED - attempt to reuse consumer tag 'twice'$")
	},

	"tls": func(session) {
		authority := x509.NewCertPool()
		same(authority.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("TLS_CA")))), true)
		address := "amqps://localhost:" + os.Getenv("TLS_PORT") + "/"
		connection := must(amqp.DialTLS(address, &tls.Config{RootCAs: authority}))
		s := open(connection)
		queue, text := s.queue(nil), strings.Repeat("x", 300_000)
		s.publish(queue, body(text))
		same(bodies(s.take(queue, 1)), []string{text})
		check(connection.Close())
		_, err := amqp.DialTLS(address, &tls.Config{})
		like(fmt.Sprint(err), "x509: certificate signed by unknown authority")
	},

	"small-frames": func(session) {
		connection := must(amqp.DialConfig(url("guest:guest"), amqp.Config{FrameSize: 4096}))
		same(connection.Config.FrameSize, 4096)
		s := open(connection)
		queue, text := s.queue(nil), strings.Repeat("frames", 20_000)
		s.publish(queue, body(text))
		same(bodies(s.take(queue, 1)), []string{text})
		check(connection.Close())
	},

	"queues": func(s session) {
		queue := must(s.QueueDeclare("", false, false, true, false, nil))
		like(queue.Name, `^amq\.gen-`)
		for _, text := range []string{"one", "two"} {
			s.publish(queue.Name, body(text))
		}
		found := must(s.QueueDeclarePassive(queue.Name, false, false, true, false, nil))
		same(found, amqp.Queue{Name: queue.Name, Messages: 2})
		same(must(s.QueuePurge(queue.Name, false)), 2, "purged")
		same(s.count(queue.Name), 0)
		s.publish(queue.Name, body("three"))
		same(must(s.QueueDelete(queue.Name, false, false, false)), 1, "deleted with")
		_, err := s.QueueDeclarePassive(queue.Name, false, false, true, false, nil)
		refused(err, 404, "NOT_FOUND")
	},

	"exchanges": func(s session) {
		for _, each := range []struct {
			kind, key string
			arguments amqp.Table
			routed    []string
			lost      []string
		}{
			{"direct", "red", nil, []string{"red"}, []string{"blue"}},
			{"fanout", "", nil, []string{"red", "blue"}, nil},
			{"topic", "*.red.#", nil, []string{"a.red", "a.red.b.c"}, []string{"red", "a.b.red"}},
			{"headers", "", amqp.Table{"x-match": "all", "color": "red", "size": 3}, []string{"color size"}, []string{"color"}},
		} {
			exchange, queue := "go-"+each.kind+"-"+tag, s.queue(nil)
			check(s.ExchangeDeclare(exchange, each.kind, false, false, false, false, nil))
			check(s.QueueBind(queue, each.key, exchange, false, each.arguments))
			publish := func() {
				for _, key := range append(append([]string{}, each.routed...), each.lost...) {
					headers := amqp.Table{}
					for _, name := range strings.Fields(key) {
						if value, known := each.arguments[name]; known {
							headers[name] = value
						}
					}
					s.publishTo(exchange, key, amqp.Publishing{Body: []byte(key), Headers: headers})
				}
			}
			publish()
			same(s.count(queue), len(each.routed), each.kind)
			same(bodies(s.take(queue, len(each.routed))), each.routed, each.kind)
			check(s.QueueUnbind(queue, each.key, exchange, each.arguments))
			publish()
			same(s.count(queue), 0, each.kind, "unbound")
			check(s.ExchangeDelete(exchange, false, false))
		}
	},

	"exchange-to-exchange": func(s session) {
		from, to, queue := "go-from-"+tag, "go-to-"+tag, s.queue(nil)
		check(s.ExchangeDeclare(from, "topic", false, false, false, false, nil))
		check(s.ExchangeDeclare(to, "fanout", false, false, false, false, nil))
		check(s.QueueBind(queue, "", to, false, nil))
		check(s.ExchangeBind(to, "a.*", from, false, nil))
		s.publishTo(from, "a.b", body("over two"))
		s.publishTo(from, "b.b", body("lost"))
		same(bodies(s.take(queue, 1)), []string{"over two"})
		check(s.ExchangeUnbind(to, "a.*", from, false, nil))
		s.publishTo(from, "a.b", body("lost"))
		same(s.count(queue), 0)
		check(s.ExchangeDelete(from, false, false))
		check(s.ExchangeDelete(to, false, false))
	},

	"alternate-exchange": func(s session) {
		exchange, queue := "go-alternate-"+tag, s.queue(nil)
		check(s.QueueBind(queue, "", "amq.fanout", false, nil))
		check(s.ExchangeDeclare(exchange, "direct", false, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}))
		s.publishTo(exchange, "nobody", body("caught"))
		same(bodies(s.take(queue, 1)), []string{"caught"})
		check(s.ExchangeDelete(exchange, false, false))
	},

	"names": func(s session) {
		name := strings.Repeat("ü", 127) + "!"
		check(s.ExchangeDeclare(name, "direct", false, false, false, false, nil))
		must(s.QueueDeclare(name, false, false, true, false, nil))
		check(s.QueueBind(name, name, name, false, nil))
		s.publishTo(name, name, body("x"))
		got := s.take(name, 1)[0]
		same([]string{got.Exchange, got.RoutingKey}, []string{name, name})
		check(s.ExchangeDelete(name, false, false))
	},

	"properties": func(s session) {
		queue := s.queue(nil)
		sent := amqp.Publishing{
			Headers:         amqp.Table{"answer": int32(42)},
			ContentType:     "application/json",
			ContentEncoding: "utf-8",
			DeliveryMode:    amqp.Persistent,
			Priority:        7,
			CorrelationId:   "correlation",
			ReplyTo:         "somewhere",
			Expiration:      "60000",
			MessageId:       "message",
			Timestamp:       time.Unix(1_700_000_000, 0),
			Type:            "kind",
			UserId:          "guest",
			AppId:           "interop",
			Body:            []byte("{}"),
		}
		s.publish(queue, sent)
		got := s.take(queue, 1)[0]
		same(got.Timestamp.Unix(), sent.Timestamp.Unix(), "timestamp")
		same(amqp.Publishing{
			Headers: got.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding,
			DeliveryMode: got.DeliveryMode, Priority: got.Priority, CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo,
			Expiration: got.Expiration, MessageId: got.MessageId, Timestamp: sent.Timestamp, Type: got.Type, UserId: got.UserId,
			AppId: got.AppId, Body: got.Body,
		}, sent)
		same([]any{got.Exchange, got.RoutingKey, got.Redelivered}, []any{"", queue, false})
	},

	"headers": func(s session) {
		queue := s.queue(nil)
		sent := amqp.Table{
			"string": "zwölf rabbits", "yes": true, "no": false, "nothing": nil, "bytes": []byte{0, 1, 255},
			"uint8": byte(200), "int8": int8(-100), "int16": int16(-30_000), "int32": int32(-1 << 30), "int64": int64(-1 << 62),
			"single": float32(0.5), "double": 0.1, "decimal": amqp.Decimal{Scale: 2, Value: 314},
			"list":  []any{int32(1), "two", []any{int64(3), nil}, amqp.Table{"four": int16(4)}},
			"table": amqp.Table{"deep": amqp.Table{"deeper": []any{"x"}}},
		}
		when := time.Unix(1_700_000_000, 0)
		sent["time"] = when
		s.publish(queue, amqp.Publishing{Headers: sent})
		got := s.take(queue, 1)[0].Headers
		same(got["time"].(time.Time).Equal(when), true, "time")
		got["time"] = when
		same(got, sent)
	},

	"empty-body": func(s session) {
		queue := s.queue(nil)
		s.publish(queue, amqp.Publishing{Type: "empty"})
		got := s.take(queue, 1)[0]
		same([]any{len(got.Body), got.Type}, []any{0, "empty"})
	},

	"large-body": func(s session) {
		queue, piece := s.queue(nil), make([]byte, 251)
		for number := range piece {
			piece[number] = byte(number)
		}
		large := bytes.Repeat(piece, 20_000)
		s.publish(queue, amqp.Publishing{Body: large})
		same(bytes.Equal(s.take(queue, 1)[0].Body, large), true, "the same body")
	},

	"interleaved": func(s session) {
		queue, done := s.queue(nil), make(chan error)
		sent := []string{}
		for number := 0; number < 8; number++ {
			text := strings.Repeat(fmt.Sprint(number), 1_000_000+number)
			sent = append(sent, text)
			channel := must(s.connection.Channel())
			go func() { done <- channel.PublishWithContext(background, "", queue, false, false, body(text)) }()
		}
		for range sent {
			check(next(done, "published"))
		}
		got := bodies(s.take(queue, len(sent)))
		sort.Strings(got)
		same(reflect.DeepEqual(got, sent), true, "the same bodies")
	},

	"acks": func(s session) {
		queue := s.queue(nil)
		for _, text := range []string{"1", "2", "3", "4", "5"} {
			s.publish(queue, body(text))
		}
		other := open(s.connection)
		held := other.hold(queue, 5)
		check(held[0].Ack(false))
		check(held[2].Ack(true))
		check(other.Close())
		left := s.take(queue, 2)
		same(bodies(left), []string{"4", "5"})
		same([]bool{left[0].Redelivered, left[1].Redelivered}, []bool{true, true})
		same(s.count(queue), 0)
	},

	"nack-requeue": func(s session) {
		queue := s.queue(nil)
		s.publish(queue, body("again"))
		first := s.hold(queue, 1)[0]
		same(first.Redelivered, false)
		check(first.Nack(false, true))
		second := s.take(queue, 1)[0]
		same([]any{second.Redelivered, string(second.Body)}, []any{true, "again"})
	},

	"reject": func(s session) {
		queue := s.queue(nil)
		s.publish(queue, body("1"))
		check(s.hold(queue, 1)[0].Reject(true))
		second := s.hold(queue, 1)[0]
		same(second.Redelivered, true)
		check(second.Reject(false))
		s.isEmpty(queue)
	},

	"recover": func(s session) {
		queue := s.queue(nil)
		s.publish(queue, body("again"))
		s.hold(queue, 1)
		check(s.Recover(true))
		same(s.take(queue, 1)[0].Redelivered, true)
	},

	"prefetch": func(s session) {
		queue := s.queue(nil)
		for number := 0; number < 10; number++ {
			s.publish(queue, body(fmt.Sprint(number)))
		}
		check(s.Qos(3, 0, false))
		deliveries := must(s.Consume(queue, "", false, false, false, false, nil))
		held := []amqp.Delivery{next(deliveries, "one"), next(deliveries, "two"), next(deliveries, "three")}
		none := func() {
			select {
			case <-deliveries:
				panic(wrong("more than asked for"))
			case <-time.After(100 * time.Millisecond):
			}
		}
		none()
		check(held[0].Ack(false))
		same(string(next(deliveries, "one more").Body), "3")
		none()
	},

	"get": func(s session) {
		queue := s.queue(nil)
		s.publish(queue, body("1"))
		s.publish(queue, body("2"))
		message, found, err := s.Get(queue, false)
		check(err)
		same([]any{found, string(message.Body), message.MessageCount, message.Redelivered}, []any{true, "1", uint32(1), false})
		check(message.Ack(false))
		message, _, err = s.Get(queue, true)
		check(err)
		same([]any{string(message.Body), message.MessageCount}, []any{"2", uint32(0)})
		s.isEmpty(queue)
	},

	"cancel": func(s session) {
		queue := s.queue(nil)
		cancelled := s.NotifyCancel(make(chan string, 1))
		deliveries := must(s.Consume(queue, "watcher", false, false, false, false, nil))
		other := must(s.connection.Channel())
		must(other.QueueDelete(queue, false, false, false))
		same(next(cancelled, "the cancel"), "watcher")
		_, open := <-deliveries
		same(open, false, "deliveries go on")
	},

	"confirms": func(s session) {
		queue := s.queue(nil)
		for number := 0; number < 1000; number++ {
			message := amqp.Publishing{Body: []byte(fmt.Sprint(number)), DeliveryMode: uint8(1 + number%2)}
			check(s.PublishWithContext(background, "", queue, false, false, message))
		}
		for number := uint64(1); number <= 1000; number++ {
			same(next(s.confirmed, "the confirm"), amqp.Confirmation{DeliveryTag: number, Ack: true})
		}
		same(s.count(queue), 1000)
	},

	"nacks": func(s session) {
		queue := s.queue(amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
		s.publish(queue, body("fits"))
		check(s.PublishWithContext(background, "", queue, false, false, body("does not")))
		same(next(s.confirmed, "the nack"), amqp.Confirmation{DeliveryTag: 2, Ack: false})
	},

	"returns": func(s session) {
		returned := s.NotifyReturn(make(chan amqp.Return, 1))
		message := amqp.Publishing{Body: []byte("come back"), MessageId: "1"}
		check(s.PublishWithContext(background, "amq.direct", "nobody", true, false, message))
		got := next(returned, "the return")
		same([]any{got.ReplyCode, got.ReplyText, got.Exchange, got.RoutingKey, got.MessageId, string(got.Body)},
			[]any{uint16(312), "NO_ROUTE", "amq.direct", "nobody", "1", "come back"})
	},

	"tx": func(s session) {
		t := open(s.connection)
		queue := t.queue(nil)
		check(t.Tx())
		t.publish(queue, body("never"))
		check(t.TxRollback())
		t.publish(queue, body("once"))
		same(t.count(queue), 0)
		check(t.TxCommit())
		same(bodies(t.take(queue, 1)), []string{"once"})
		check(t.TxCommit()) // the ack
		same(t.count(queue), 0)
	},

	"rpc": func(s session) {
		queue := s.queue(nil)
		server := must(s.connection.Channel())
		requests := must(server.Consume(queue, "", true, false, false, false, nil))
		go func() {
			for request := range requests {
				answer := amqp.Publishing{Body: bytes.ToUpper(request.Body), CorrelationId: request.CorrelationId}
				server.PublishWithContext(background, "", request.ReplyTo, false, false, answer)
			}
		}()
		answers := must(s.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil))
		s.publish(queue, amqp.Publishing{Body: []byte("hello"), ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "7"})
		answer := next(answers, "the answer")
		same([]string{string(answer.Body), answer.CorrelationId}, []string{"HELLO", "7"})
	},

	"dead-letters": func(s session) {
		dead := s.queue(nil)
		queue := s.queue(amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
		s.publish(queue, body("rejected"))
		check(s.hold(queue, 1)[0].Reject(false))
		first := s.take(dead, 1)[0]
		s.publish(queue, amqp.Publishing{Body: []byte("expired"), Expiration: "20"})
		second := s.take(dead, 1)[0]
		same(bodies([]amqp.Delivery{first, second}), []string{"rejected", "expired"})
		deaths := first.Headers["x-death"].([]any)
		same(len(deaths), 1, "deaths")
		death := deaths[0].(amqp.Table)
		if age := time.Since(death["time"].(time.Time)); age > time.Minute || age < -time.Minute {
			panic(wrong(fmt.Sprint("died ", age, " ago")))
		}
		delete(death, "time")
		same(death, amqp.Table{"count": int64(1), "reason": "rejected", "queue": queue, "exchange": "", "routing-keys": []any{queue}})
		same(first.Headers["x-first-death-reason"], "rejected")
		death = second.Headers["x-death"].([]any)[0].(amqp.Table)
		same([]any{death["reason"], death["original-expiration"], second.Expiration}, []any{"expired", "20", ""})
	},

	"quorum": func(s session) {
		queue := "go-quorum-" + tag
		must(s.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}))
		s.publish(queue, body("again"))
		check(s.hold(queue, 1)[0].Nack(false, true))
		same(s.take(queue, 1)[0].Headers["x-delivery-count"], int64(1))
		must(s.QueueDelete(queue, false, false, false))
	},

	"priorities": func(s session) {
		queue := s.queue(amqp.Table{"x-max-priority": 5})
		for _, priority := range []uint8{1, 5, 3, 0, 5} {
			s.publish(queue, amqp.Publishing{Body: []byte(fmt.Sprint(priority)), Priority: priority})
		}
		same(bodies(s.take(queue, 5)), []string{"5", "5", "3", "1", "0"})
	},

	"ttl": func(s session) {
		queue, other := s.queue(amqp.Table{"x-message-ttl": 30}), s.queue(nil)
		s.publish(queue, body("short-lived"))
		s.publish(other, amqp.Publishing{Body: []byte("short-lived"), Expiration: "30"})
		s.publish(other, amqp.Publishing{Body: []byte("stays"), Expiration: "60000"})
		time.Sleep(200 * time.Millisecond)
		s.isEmpty(queue)
		same(bodies(s.take(other, 1)), []string{"stays"})
	},

	"not-found": func(s session) {
		closed := s.NotifyClose(make(chan *amqp.Error, 1))
		_, err := s.QueueDeclarePassive("go-nowhere", false, false, false, false, nil)
		text := "^NOT_FOUND - no queue 'go-nowhere' in vhost '/'$"
		refused(err, 404, text)
		refused(next(closed, "the close"), 404, text)
		same([]bool{s.IsClosed(), s.connection.IsClosed()}, []bool{true, false})
		must(s.connection.Channel())
	},

	"precondition-failed": func(s session) {
		name := "go-precondition-" + tag
		must(s.QueueDeclare(name, false, true, true, false, nil))
		other := must(s.connection.Channel())
		_, err := other.QueueDeclare(name, false, false, true, false, nil)
		refused(err, 406, "^PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '"+name+
			"' in vhost '/': received 'false' but current is 'true'$")
		closed := s.Channel.NotifyClose(make(chan *amqp.Error, 1))
		check(s.Ack(99, false))
		refused(next(closed, "the close"), 406, "^PRECONDITION_FAILED - unknown delivery tag 99$")
		must(s.connection.Channel())
	},

	"access-refused": func(s session) {
		_, err := s.QueueDeclare("amq.mine", false, false, false, false, nil)
		refused(err, 403, `^ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq\.\*'$`)
		must(s.connection.Channel())
	},

	"resource-locked": func(s session) {
		queue, other := s.queue(nil), connect()
		_, err := other.QueueDeclarePassive(queue, false, false, false, false, nil)
		refused(err, 405, "^RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '"+queue+"' in vhost '/'")
		must(other.connection.Channel())
		check(other.connection.Close())
	},

	"heartbeats": func(session) {
		connection := must(amqp.DialConfig(url("guest:guest"), amqp.Config{Heartbeat: time.Second}))
		same(connection.Config.Heartbeat, time.Second)
		time.Sleep(4 * time.Second)
		same(connection.IsClosed(), false, "closed")
		must(connection.Channel())
		check(connection.Close())
	},

	"blocked": func(session) {
		s := connect()
		blocked := s.connection.NotifyBlocked(make(chan amqp.Blocking, 1))
		check(s.PublishWithContext(background, "", "anywhere", false, false, body("x")))
		same(next(blocked, "the news"), amqp.Blocking{Active: true, Reason: "low on memory"})
	},

	// As its documentation says: watch the connection, and begin again when it is gone.
	"recovery": func(session) {
		heard, ready, losses := make(chan string), make(chan session), make(chan *amqp.Error, 1)
		serve := func() error {
			connection, err := amqp.Dial(url("guest:guest"))
			if err != nil {
				return err
			}
			s := open(connection).confirming()
			queue := must(s.QueueDeclare("go-recovery", false, true, false, false, nil)).Name
			lost := connection.NotifyClose(make(chan *amqp.Error, 1))
			deliveries := must(s.Consume(queue, "", false, false, false, false, nil))
			ready <- s
			for delivery := range deliveries {
				check(delivery.Ack(false))
				heard <- string(delivery.Body)
			}
			losses <- <-lost
			return nil
		}
		go func() {
			for {
				if serve() != nil {
					time.Sleep(50 * time.Millisecond)
				}
			}
		}()
		send := func(text string) {
			next(ready, "a connection").publish("go-recovery", body(text))
			same(next(heard, text), text)
		}
		send("before")
		fmt.Println("restart")
		refused(next(losses, "the loss"), 320, "^CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")
		send("after")
	},
}

func run(name string) (fault any) {
	defer func() { fault = recover() }()
	s := connect()
	defer s.connection.Close()
	if name == "blocked" || name == "recovery" {
		check(s.connection.Close())
	} else {
		s = s.confirming()
	}
	checks[name](s)
	return
}

func main() {
	for _, name := range os.Args[3:] {
		if fault := run(name); fault != nil {
			fmt.Printf("failed %s: %s\n", name, strings.ReplaceAll(fmt.Sprint(fault), "\n", " "))
		} else {
			fmt.Println("ok", name)
		}
	}
}
