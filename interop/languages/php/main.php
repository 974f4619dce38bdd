<?php
// What php-amqplib's users do with RabbitMQ, each check by its name (../checks.py says what they mean):
//   php main.php HOST PORT CHECK...
// prints `ok NAME` or `failed NAME: why` for each.

declare(strict_types=1);

require 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AbstractConnection;
use PhpAmqpLib\Connection\AMQPSocketConnection;
use PhpAmqpLib\Connection\AMQPSSLConnection;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPBasicCancelException;
use PhpAmqpLib\Exception\AMQPConnectionBlockedException;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPExceptionInterface;
use PhpAmqpLib\Exception\AMQPIOException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Exception\AMQPTimeoutException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPAbstractCollection as Type;
use PhpAmqpLib\Wire\AMQPDecimal;
use PhpAmqpLib\Wire\AMQPTable;

[, $host, $port] = $argv;
define('HOST', $host);
define('PORT', (int) $port);
const PATIENCE_S = 30;

class Wrong extends Exception
{
}

function same(mixed $actual, mixed $expected, string $what = 'it'): void
{
    if ($actual != $expected || gettype($actual) !== gettype($expected)) {
        throw new Wrong("$what is " . var_export($actual, true) . ', not ' . var_export($expected, true));
    }
}

function contains(string $text, string $part): void
{
    if (!str_contains($text, $part)) {
        throw new Wrong("'$text' does not say '$part'");
    }
}

/** The error that is raised, of this class and with this code and text. */
function refused(string $class, int $code, string $text, callable $do): Throwable
{
    try {
        $do();
    } catch (Throwable $error) {
        if (!$error instanceof $class) {
            throw $error;
        }
        same($error->getCode(), $code, 'the code');
        contains($error->getMessage(), $text);
        return $error;
    }
    throw new Wrong("no $class");
}

function connect(string $vhost = '/', string $password = 'guest', int $heartbeat = 0): AMQPStreamConnection
{
    return new AMQPStreamConnection(HOST, PORT, 'guest', $password, $vhost, heartbeat: $heartbeat);
}

/** A queue of this connection's, with a name of the server's. */
function queue(AMQPChannel $channel, array $arguments = []): string
{
    [$name] = $channel->queue_declare('', exclusive: true, auto_delete: false, arguments: new AMQPTable($arguments));
    return $name;
}

function publish(AMQPChannel $channel, string $queue, string $body, array $properties = []): void
{
    $channel->basic_publish(new AMQPMessage($body, $properties), '', $queue);
}

/** The first messages of a queue. They are acked unless told otherwise. */
function take(AMQPChannel $channel, string $queue, int $count, bool $ack = true): array
{
    $messages = [];
    $tag = $channel->basic_consume($queue, callback: function (AMQPMessage $message) use (&$messages, $ack) {
        $messages[] = $message;
        if ($ack) {
            $message->ack();
        }
    });
    while (count($messages) < $count) {
        $channel->wait(null, false, PATIENCE_S);
    }
    $channel->basic_cancel($tag);
    return $messages;
}

function bodies(array $messages): array
{
    return array_map(fn (AMQPMessage $message) => $message->getBody(), $messages);
}

/** RabbitMQ counts what it has confirmed. */
function messages(AMQPChannel $channel, string $queue): int
{
    $channel->wait_for_pending_acks(PATIENCE_S);
    return $channel->queue_declare($queue, passive: true)[1];
}

$checks = [
    'handshake' => function (AbstractConnection $connection) {
        $properties = $connection->getServerProperties();
        same($properties['product'][1], 'RabbitMQ');
        same(preg_match('/^\d+\.\d+\.\d+/', $properties['version'][1]), 1, 'a version');
        $names = ['publisher_confirms', 'exchange_exchange_bindings', 'basic.nack', 'consumer_cancel_notify', 'connection.blocked'];
        foreach ($names as $name) {
            same((bool) $properties['capabilities'][1][$name][1], true, $name);
        }
    },

    'login-refused' => function () {
        $text = 'ACCESS_REFUSED - Login was refused using authentication mechanism AMQPLAIN';
        refused(AMQPConnectionClosedException::class, 403, $text, fn () => connect(password: 'wrong'));
    },

    'vhost-not-found' => function () {
        $text = 'NOT_ALLOWED - vhost nowhere not found';
        refused(AMQPConnectionClosedException::class, 530, $text, fn () => connect('nowhere'));
    },

    'connection-error' => function (AbstractConnection $connection, AMQPChannel $channel) {
        refused(AMQPConnectionClosedException::class, 540, 'NOT_IMPLEMENTED - immediate=true', function () use ($channel) {
            $channel->basic_publish(new AMQPMessage('x'), '', 'anywhere', immediate: true);
            $channel->wait(null, false, PATIENCE_S);
        });
        same($connection->isConnected(), false);
    },

    'tls' => function () {
        $connect = fn (array $options) => new AMQPSSLConnection(
            'localhost', (int) getenv('TLS_PORT'), 'guest', 'guest', '/', $options + ['verify_peer' => true]
        );
        $connection = $connect(['cafile' => getenv('TLS_CA')]);
        $channel = $connection->channel();
        $queue = queue($channel);
        publish($channel, $queue, str_repeat('x', 300_000));
        same(bodies(take($channel, $queue, 1)), [str_repeat('x', 300_000)]);
        $connection->close();
        refused(AMQPIOException::class, 0, 'Unable to connect to ssl://localhost', fn () => $connect([]));
    },

    'queues' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        contains($queue, 'amq.gen-');
        publish($channel, $queue, 'one');
        publish($channel, $queue, 'two');
        same(messages($channel, $queue), 2);
        same($channel->queue_declare($queue, passive: true), [$queue, 2, 0]);
        same($channel->queue_purge($queue), 2);
        publish($channel, $queue, 'three');
        same(messages($channel, $queue), 1);
        same($channel->queue_delete($queue), 1);
        same($channel->queue_delete($queue), 0, 'deleting what is not there');
    },

    'exchanges' => function (AbstractConnection $connection, AMQPChannel $channel) {
        // kind: binding, and what is published with whether it arrives
        $kinds = [
            'direct' => ['red', [], ['red' => true, 'blue' => false]],
            'fanout' => ['', [], ['red' => true, 'blue' => true]],
            'topic' => ['*.red.#', [], ['a.red' => true, 'a.red.b.c' => true, 'red' => false, 'a.b.red' => false]],
            'headers' => ['', ['x-match' => 'all', 'color' => 'red', 'size' => 3], ['color' => false, 'color size' => true]],
        ];
        foreach ($kinds as $kind => [$key, $arguments, $routed]) {
            $exchange = "php-$kind-" . getmypid();
            $channel->exchange_declare($exchange, $kind, auto_delete: false);
            $queue = queue($channel);
            $channel->queue_bind($queue, $exchange, $key, arguments: new AMQPTable($arguments));
            $publish = function () use ($channel, $exchange, $routed) {
                foreach (array_keys($routed) as $key) {
                    $headers = array_intersect_key(['color' => 'red', 'size' => 3], array_flip(explode(' ', $key)));
                    $message = new AMQPMessage($key, ['application_headers' => new AMQPTable($headers)]);
                    $channel->basic_publish($message, $exchange, $key);
                }
            };
            $publish();
            $expected = array_keys(array_filter($routed));
            same(messages($channel, $queue), count($expected), $kind);
            same(bodies(take($channel, $queue, count($expected))), $expected, $kind);
            $channel->queue_unbind($queue, $exchange, $key, new AMQPTable($arguments));
            $publish();
            same(messages($channel, $queue), 0, "$kind unbound");
            $channel->exchange_delete($exchange);
        }
    },

    'exchange-to-exchange' => function (AbstractConnection $connection, AMQPChannel $channel) {
        [$from, $to] = ['php-from-' . getmypid(), 'php-to-' . getmypid()];
        $channel->exchange_declare($from, 'topic', auto_delete: false);
        $channel->exchange_declare($to, 'fanout', auto_delete: false);
        $queue = queue($channel);
        $channel->queue_bind($queue, $to);
        $channel->exchange_bind($to, $from, 'a.*');
        $channel->basic_publish(new AMQPMessage('over two'), $from, 'a.b');
        $channel->basic_publish(new AMQPMessage('lost'), $from, 'b.b');
        same(bodies(take($channel, $queue, 1)), ['over two']);
        $channel->exchange_unbind($to, $from, 'a.*');
        $channel->basic_publish(new AMQPMessage('lost'), $from, 'a.b');
        same(messages($channel, $queue), 0);
        $channel->exchange_delete($from);
        $channel->exchange_delete($to);
    },

    'alternate-exchange' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $exchange = 'php-alternate-' . getmypid();
        $arguments = new AMQPTable(['alternate-exchange' => 'amq.fanout']);
        $channel->exchange_declare($exchange, 'direct', auto_delete: false, arguments: $arguments);
        $queue = queue($channel);
        $channel->queue_bind($queue, 'amq.fanout');
        $channel->basic_publish(new AMQPMessage('caught'), $exchange, 'nobody', mandatory: true);
        same(bodies(take($channel, $queue, 1)), ['caught']);
        $channel->exchange_delete($exchange);
    },

    'names' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $name = str_repeat('ü', 127) . '!';
        $channel->queue_declare($name, exclusive: true);
        $channel->exchange_declare($name, 'direct');
        $channel->queue_bind($name, $name, $name);
        $channel->basic_publish(new AMQPMessage('x'), $name, $name);
        [$message] = take($channel, $name, 1);
        same([$message->getExchange(), $message->getRoutingKey()], [$name, $name]);
    },

    'properties' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        $properties = [
            'content_type' => 'application/json',
            'content_encoding' => 'utf-8',
            'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
            'priority' => 7,
            'correlation_id' => 'correlation',
            'reply_to' => 'somewhere',
            'expiration' => '60000',
            'message_id' => 'message',
            'timestamp' => 1_700_000_000,
            'type' => 'kind',
            'user_id' => 'guest',
            'app_id' => 'interop',
            'cluster_id' => 'cluster',
        ];
        publish($channel, $queue, '{}', $properties + ['application_headers' => new AMQPTable(['answer' => 42])]);
        $arrived = take($channel, $queue, 1)[0]->get_properties();
        same($arrived['application_headers']->getNativeData(), ['answer' => 42]);
        unset($arrived['application_headers']);
        ksort($properties);
        ksort($arrived);
        same($arrived, $properties);
    },

    'headers' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        $headers = new AMQPTable([
            'string' => 'zwölf rabbits',
            'int' => -2_000_000_000,
            'long' => -(2 ** 62),
            'yes' => true,
            'no' => false,
            'nothing' => null,
            'time' => new DateTime('@1700000000'),
            'decimal' => new AMQPDecimal(314, 2),
            'list' => [1, 'two', [3, null], ['four' => 4]],
            'table' => ['deep' => ['deeper' => ['x']]],
        ]);
        $headers->set('byte', -12, Type::T_INT_SHORTSHORT);
        $headers->set('unsigned byte', 200, Type::T_INT_SHORTSHORT_U);
        $headers->set('short', -30_000, Type::T_INT_SHORT);
        $headers->set('unsigned short', 60_000, Type::T_INT_SHORT_U);
        $headers->set('unsigned int', 4_000_000_000, Type::T_INT_LONG_U);
        $headers->set('bytes', "\x00\x01\xff", Type::T_BYTES);
        publish($channel, $queue, 'x', ['application_headers' => $headers]);
        $arrived = take($channel, $queue, 1)[0]->get('application_headers');
        same($arrived->getNativeData(), $headers->getNativeData());
        foreach ($headers as $name => [$type]) {
            same(iterator_to_array($arrived)[$name][0], $type, "the type of $name");
        }
    },

    'empty-body' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        publish($channel, $queue, '', ['type' => 'empty']);
        [$message] = take($channel, $queue, 1);
        same([$message->getBody(), $message->get('type')], ['', 'empty']);
    },

    'large-body' => function () {
        $body = str_repeat(implode('', array_map('chr', range(0, 250))), 20_000);
        $options = [HOST, PORT, 'guest', 'guest'];
        foreach ([new AMQPStreamConnection(...$options), new AMQPSocketConnection(...$options)] as $connection) {
            $channel = $connection->channel();
            $queue = queue($channel);
            publish($channel, $queue, $body);
            [$message] = take($channel, $queue, 1);
            same(md5($message->getBody()), md5($body), get_class($connection));
            $connection->close();
        }
    },

    'interleaved' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        $sent = array_map(fn (int $number) => str_repeat((string) $number, 1_000_000 + $number), range(0, 7));
        foreach ($sent as $body) { // it sends one after the other, and receives what comes
            publish($connection->channel(), $queue, $body);
        }
        $arrived = bodies(take($channel, $queue, 8));
        sort($arrived, SORT_STRING);
        same(array_map('md5', $arrived), array_map('md5', $sent));
    },

    'acks' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        foreach (['1', '2', '3', '4', '5'] as $body) {
            publish($channel, $queue, $body);
        }
        $other = $connection->channel();
        $messages = take($other, $queue, 5, ack: false);
        $messages[0]->ack();
        $messages[2]->ack(true);
        $other->close();
        $left = take($channel, $queue, 2);
        same(bodies($left), ['4', '5']);
        same([(bool) $left[0]->isRedelivered(), (bool) $left[1]->isRedelivered()], [true, true]);
        same(messages($channel, $queue), 0);
    },

    'nack-requeue' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        publish($channel, $queue, 'again');
        [$first] = take($channel, $queue, 1, ack: false);
        same((bool) $first->isRedelivered(), false);
        $first->nack(true);
        [$second] = take($channel, $queue, 1);
        same([$second->getBody(), (bool) $second->isRedelivered()], ['again', true]);
    },

    'reject' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        publish($channel, $queue, '1');
        take($channel, $queue, 1, ack: false)[0]->reject(true);
        [$second] = take($channel, $queue, 1, ack: false);
        same((bool) $second->isRedelivered(), true);
        $second->reject(false);
        same($channel->basic_get($queue), null);
    },

    'recover' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        publish($channel, $queue, 'again');
        take($channel, $queue, 1, ack: false);
        $channel->basic_recover(true);
        same((bool) take($channel, $queue, 1)[0]->isRedelivered(), true);
    },

    'prefetch' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        for ($number = 0; $number < 10; $number++) {
            publish($channel, $queue, (string) $number);
        }
        $channel->wait_for_pending_acks(PATIENCE_S);
        $channel->basic_qos(0, 3, false);
        $messages = [];
        $channel->basic_consume($queue, callback: function (AMQPMessage $message) use (&$messages) {
            $messages[] = $message;
        });
        $wait = function (int $count) use ($channel, &$messages) {
            while (count($messages) < $count) {
                $channel->wait(null, false, PATIENCE_S);
            }
            try {
                $channel->wait(null, false, 0.1);
            } catch (AMQPTimeoutException) {
            }
        };
        $wait(3);
        same(bodies($messages), ['0', '1', '2']);
        $messages[0]->ack();
        $wait(4);
        same(bodies($messages), ['0', '1', '2', '3']);
    },

    'get' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        publish($channel, $queue, '1');
        publish($channel, $queue, '2');
        $channel->wait_for_pending_acks(PATIENCE_S);
        $message = $channel->basic_get($queue);
        same([$message->getBody(), $message->getMessageCount()], ['1', 1]);
        $message->ack();
        same($channel->basic_get($queue, true)->getBody(), '2');
        same($channel->basic_get($queue), null);
    },

    'cancel' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        $tag = $channel->basic_consume($queue, callback: fn () => null);
        $connection->channel()->queue_delete($queue);
        try {
            $channel->wait(null, false, PATIENCE_S);
        } catch (AMQPBasicCancelException $cancelled) {
            same($cancelled->consumerTag, $tag);
            return;
        }
        throw new Wrong('it is not told');
    },

    'confirms' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        [$acked, $nacked] = [0, 0];
        $channel->set_ack_handler(function () use (&$acked) {
            $acked++;
        });
        $channel->set_nack_handler(function () use (&$nacked) {
            $nacked++;
        });
        for ($number = 0; $number < 1000; $number++) {
            publish($channel, $queue, (string) $number, ['delivery_mode' => 1 + $number % 2]);
        }
        $channel->wait_for_pending_acks(PATIENCE_S);
        same([$acked, $nacked], [1000, 0]);
        same(messages($channel, $queue), 1000);
    },

    'nacks' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel, ['x-max-length' => 1, 'x-overflow' => 'reject-publish']);
        $nacked = [];
        $channel->set_nack_handler(function (AMQPMessage $message) use (&$nacked) {
            $nacked[] = $message->getBody();
        });
        publish($channel, $queue, 'fits');
        $channel->wait_for_pending_acks(PATIENCE_S);
        publish($channel, $queue, 'does not');
        $channel->wait_for_pending_acks(PATIENCE_S);
        same($nacked, ['does not']);
    },

    'returns' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $returned = [];
        $channel->set_return_listener(function (...$return) use (&$returned) {
            $returned[] = $return;
        });
        $channel->basic_publish(new AMQPMessage('come back', ['message_id' => '1']), 'amq.direct', 'nobody', mandatory: true);
        $channel->wait_for_pending_acks_returns(PATIENCE_S);
        [[$code, $text, $exchange, $key, $message]] = $returned;
        same([$code, $text, $exchange, $key], [312, 'NO_ROUTE', 'amq.direct', 'nobody']);
        same([$message->getBody(), $message->get('message_id')], ['come back', '1']);
    },

    'tx' => function (AbstractConnection $connection) {
        $channel = $connection->channel();
        $queue = queue($channel);
        $channel->tx_select();
        publish($channel, $queue, 'never');
        $channel->tx_rollback();
        publish($channel, $queue, 'once');
        same(messages($channel, $queue), 0);
        $channel->tx_commit();
        same(bodies(take($channel, $queue, 1)), ['once']);
        $channel->tx_commit(); // the ack
        same(messages($channel, $queue), 0);
    },

    'rpc' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        $server = $connection->channel();
        $server->basic_consume($queue, no_ack: true, callback: function (AMQPMessage $request) use ($server) {
            $properties = ['correlation_id' => $request->get('correlation_id')];
            publish($server, $request->get('reply_to'), strtoupper($request->getBody()), $properties);
        });
        $answers = [];
        $channel->basic_consume('amq.rabbitmq.reply-to', no_ack: true, callback: function (AMQPMessage $answer) use (&$answers) {
            $answers[] = $answer;
        });
        publish($channel, $queue, 'hello', ['reply_to' => 'amq.rabbitmq.reply-to', 'correlation_id' => '7']);
        $server->wait(null, false, PATIENCE_S);
        while (!$answers) {
            $channel->wait(null, false, PATIENCE_S);
        }
        same([$answers[0]->getBody(), $answers[0]->get('correlation_id')], ['HELLO', '7']);
    },

    'dead-letters' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $dead = queue($channel);
        $queue = queue($channel, ['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => $dead]);
        publish($channel, $queue, 'rejected');
        take($channel, $queue, 1, ack: false)[0]->reject(false);
        [$first] = take($channel, $dead, 1);
        publish($channel, $queue, 'expired', ['expiration' => '20']);
        [$second] = take($channel, $dead, 1);
        same(bodies([$first, $second]), ['rejected', 'expired']);
        $headers = $first->get('application_headers')->getNativeData();
        [$death] = $headers['x-death'];
        same(abs($death['time']->getTimestamp() - time()) < 60, true, 'the time');
        unset($death['time']);
        ksort($death);
        same($death, ['count' => 1, 'exchange' => '', 'queue' => $queue, 'reason' => 'rejected', 'routing-keys' => [$queue]]);
        same($headers['x-first-death-reason'], 'rejected');
        [$death] = $second->get('application_headers')->getNativeData()['x-death'];
        same([$death['reason'], $death['original-expiration']], ['expired', '20']);
        same($second->has('expiration'), false);
    },

    'quorum' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = 'php-quorum-' . getmypid();
        $arguments = new AMQPTable(['x-queue-type' => 'quorum']);
        $channel->queue_declare($queue, durable: true, auto_delete: false, arguments: $arguments);
        publish($channel, $queue, 'again', ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
        take($channel, $queue, 1, ack: false)[0]->nack(true);
        [$message] = take($channel, $queue, 1);
        same($message->get('application_headers')->getNativeData()['x-delivery-count'], 1);
        $channel->queue_delete($queue);
    },

    'priorities' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel, ['x-max-priority' => 5]);
        foreach ([1, 5, 3, 0, 5] as $priority) {
            publish($channel, $queue, (string) $priority, ['priority' => $priority]);
        }
        same(messages($channel, $queue), 5);
        same(bodies(take($channel, $queue, 5)), ['5', '5', '3', '1', '0']);
    },

    'ttl' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel, ['x-message-ttl' => 30]);
        $other = queue($channel);
        publish($channel, $queue, 'short-lived');
        publish($channel, $other, 'short-lived', ['expiration' => '30']);
        publish($channel, $other, 'stays', ['expiration' => '60000']);
        usleep(200_000);
        same($channel->basic_get($queue), null);
        same($channel->basic_get($other)->getBody(), 'stays');
    },

    'not-found' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $text = "NOT_FOUND - no queue 'php-nowhere' in vhost '/'";
        $ask = fn () => $channel->queue_declare('php-nowhere', passive: true);
        refused(AMQPProtocolChannelException::class, 404, $text, $ask);
        $next = $connection->channel();
        refused(AMQPProtocolChannelException::class, 404, "NOT_FOUND - no exchange 'php-nowhere' in vhost '/'", function () use ($next) {
            $next->basic_publish(new AMQPMessage('x'), 'php-nowhere');
            $next->wait(null, false, PATIENCE_S);
        });
        same($connection->channel()->is_open(), true);
    },

    'precondition-failed' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = 'php-precondition-' . getmypid();
        $channel->queue_declare($queue, exclusive: true, auto_delete: true);
        $text = "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '$queue' in vhost '/': received 'false' but current is 'true'";
        $ask = fn () => $channel->queue_declare($queue, exclusive: true, auto_delete: false);
        refused(AMQPProtocolChannelException::class, 406, $text, $ask);
        $next = $connection->channel();
        refused(AMQPProtocolChannelException::class, 406, 'PRECONDITION_FAILED - unknown delivery tag 99', function () use ($next) {
            $next->basic_ack(99);
            $next->wait(null, false, PATIENCE_S);
        });
        same($connection->channel()->is_open(), true);
    },

    'access-refused' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'";
        refused(AMQPProtocolChannelException::class, 403, $text, fn () => $channel->queue_declare('amq.mine'));
        $mine = $connection->channel();
        $queue = queue($mine);
        $mine->basic_consume($queue, exclusive: true, callback: fn () => null);
        $text = "ACCESS_REFUSED - queue '$queue' in vhost '/' in exclusive use";
        $ask = fn () => $connection->channel()->basic_consume($queue, callback: fn () => null);
        refused(AMQPProtocolChannelException::class, 403, $text, $ask);
        same($connection->channel()->is_open(), true);
    },

    'resource-locked' => function (AbstractConnection $connection, AMQPChannel $channel) {
        $queue = queue($channel);
        $other = connect();
        $text = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '$queue'";
        $ask = fn () => $other->channel()->queue_declare($queue, passive: true);
        refused(AMQPProtocolChannelException::class, 405, $text, $ask);
        same($other->channel()->is_open(), true);
        $other->close();
    },

    'heartbeats' => function () {
        $connection = connect(heartbeat: 1);
        $channel = $connection->channel();
        $queue = queue($channel);
        $channel->basic_consume($queue, callback: fn () => null);
        for ($until = microtime(true) + 4; microtime(true) < $until;) {
            try {
                $channel->wait(null, false, 0.4); // it beats while it waits, and only then
            } catch (AMQPTimeoutException) {
                $connection->checkHeartBeat();
            }
        }
        same($connection->isConnected(), true);
        same(messages($channel, $queue), 0);
        $connection->close();
    },

    'blocked' => function () {
        $connection = connect();
        $channel = $connection->channel();
        $reasons = [];
        $connection->set_connection_block_handler(function (string $reason) use (&$reasons) {
            $reasons[] = $reason;
        });
        publish($channel, 'anywhere', 'x');
        while (!$reasons) {
            try {
                $channel->wait(null, false, 0.1);
            } catch (AMQPTimeoutException) {
            }
        }
        same($reasons, ['low on memory']);
        refused(AMQPConnectionBlockedException::class, 0, '', fn () => publish($channel, 'anywhere', 'y'));
    },

    // As its documentation says: connect, declare and consume; when it breaks, begin again.
    'recovery' => function () {
        [$heard, $errors] = [[], []];
        while ($heard !== ['before', 'after']) {
            try {
                $connection = connect();
                $channel = $connection->channel();
                $channel->queue_declare('php-recovery', auto_delete: false);
                $channel->basic_consume('php-recovery', callback: function (AMQPMessage $message) use (&$heard) {
                    $message->ack();
                    $heard[] = $message->getBody();
                });
                $count = count($heard);
                publish($channel, 'php-recovery', $count ? 'after' : 'before');
                while (count($heard) === $count) {
                    $channel->wait(null, false, PATIENCE_S);
                }
                if ($heard === ['before']) {
                    echo "restart\n";
                    $channel->wait(null, false, PATIENCE_S);
                }
            } catch (AMQPExceptionInterface $error) {
                $errors[] = $error;
                usleep(50_000);
            }
        }
        same($errors[0] instanceof AMQPConnectionClosedException, true, get_class($errors[0]));
        $connection->close();
    },
];

foreach (array_slice($argv, 3) as $name) {
    try {
        $connection = connect();
        $channel = $connection->channel();
        $channel->confirm_select();
        $checks[$name]($connection, $channel);
        if (!in_array($name, ['blocked', 'recovery'])) { // a close would not be read, or find nobody
            $connection->close();
        }
        echo "ok $name\n";
    } catch (Throwable $error) {
        fwrite(STDERR, "$error\n");
        echo "failed $name: " . str_replace("\n", ' ', $error->getMessage()) . "\n";
    }
}
