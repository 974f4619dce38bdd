// What amqplib's users do with RabbitMQ, each check by its name (../checks.py says what they mean):
//   node main.mjs HOST PORT CHECK...
// prints `ok NAME` or `failed NAME: why` for each.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import amqp from 'amqplib';
import manager from 'amqp-connection-manager';

const [host, port, ...wanted] = process.argv.slice(2);
const URL = `amqp://guest:guest@${host}:${port}`;
const PATIENCE_MS = 30_000;

const within = (promise, what) =>
  Promise.race([
    promise,
    sleep(PATIENCE_MS, undefined, { ref: false }).then(() => {
      throw new Error(`not in ${PATIENCE_MS} ms: ${what}`);
    }),
  ]);

// The first messages of a queue, as text. They are acked unless told otherwise.
async function take(channel, queue, count, { ack = true } = {}) {
  const messages = [];
  let enough;
  const isEnough = new Promise((resolve) => (enough = resolve));
  const { consumerTag } = await channel.consume(queue, (message) => {
    messages.push(message);
    if (ack) channel.ack(message);
    if (messages.length === count) enough();
  });
  await within(isEnough, `${count} messages`);
  await channel.cancel(consumerTag);
  return messages;
}

async function eventually(holds, what) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(Date.now() < deadline, `not in ${PATIENCE_MS} ms: ${what}`);
    await sleep(5);
  }
}

const bodies = (messages) => messages.map((message) => message.content.toString());

// RabbitMQ counts what it has confirmed.
async function count(channel, queue) {
  await within(channel.waitForConfirms(), 'the confirms');
  return (await channel.checkQueue(queue)).messageCount;
}

const quiet = (emitter) => emitter.on('error', () => {}); // what is awaited says it, too

const checks = {
  async handshake(connection) {
    const { product, version, capabilities } = connection.connection.serverProperties;
    assert.equal(product, 'RabbitMQ');
    assert.match(version, /^\d+\.\d+\.\d+/);
    for (const name of ['publisher_confirms', 'exchange_exchange_bindings', 'basic.nack', 'consumer_cancel_notify', 'connection.blocked']) {
      assert.equal(capabilities[name], true, name);
    }
  },

  async 'login-refused'() {
    await assert.rejects(amqp.connect(`amqp://guest:wrong@${host}:${port}`), /ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN/);
  },

  async 'vhost-not-found'() {
    // amqplib keeps the code and the text to itself here
    await assert.rejects(amqp.connect(`${URL}/nowhere`), /Expected ConnectionOpenOk; got <ConnectionClose channel:0>/);
  },

  async 'connection-error'(connection, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    quiet(channel);
    const failed = once(connection, 'error');
    await channel.consume(queue, () => {}, { consumerTag: 'twice' });
    await assert.rejects(channel.consume(queue, () => {}, { consumerTag: 'twice' }));
    const [error] = await within(failed, 'the error');
    assert.equal(error.code, 530);
    assert.match(error.message, /NOT_ALLOWED - attempt to reuse consumer tag 'twice'/);
  },

  async tls() {
    const ca = [readFileSync(process.env.TLS_CA)];
    const connection = await amqp.connect(`amqps://localhost:${process.env.TLS_PORT}`, { ca });
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    channel.sendToQueue(queue, Buffer.alloc(300_000, 'x'));
    const [message] = await take(channel, queue, 1);
    assert.equal(message.content.length, 300_000);
    await connection.close();
    await assert.rejects(amqp.connect(`amqps://localhost:${process.env.TLS_PORT}`), /certificate/);
  },

  async 'small-frames'() {
    const connection = await amqp.connect(`${URL}?frameMax=4096`);
    assert.equal(connection.connection.frameMax, 4096);
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const body = Buffer.alloc(100_000, 'frames');
    channel.sendToQueue(queue, body);
    const [message] = await take(channel, queue, 1);
    assert.ok(body.equals(message.content));
    await connection.close();
  },

  async queues(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    assert.match(queue, /^amq\.gen-/);
    channel.sendToQueue(queue, Buffer.from('one'));
    channel.sendToQueue(queue, Buffer.from('two'));
    assert.equal(await count(channel, queue), 2);
    assert.deepEqual(await channel.checkQueue(queue), { queue, messageCount: 2, consumerCount: 0 });
    assert.deepEqual(await channel.purgeQueue(queue), { messageCount: 2 });
    channel.sendToQueue(queue, Buffer.from('three'));
    assert.equal(await count(channel, queue), 1);
    assert.deepEqual(await channel.deleteQueue(queue), { messageCount: 1 });
    assert.deepEqual(await channel.deleteQueue(queue), { messageCount: 0 }, 'deleting what is not there is fine');
  },

  async exchanges(_, channel) {
    // kind: [binding, what is published, whether it arrives]
    const kinds = {
      direct: ['red', {}, { red: true, blue: false }],
      fanout: ['', {}, { red: true, blue: true }],
      topic: ['*.red.#', {}, { 'a.red': true, 'a.red.b.c': true, red: false, 'a.b.red': false }],
      headers: ['', { 'x-match': 'all', color: 'red', size: 3 }, { color: false, 'color,size': true }],
    };
    for (const [kind, [pattern, args, routed]] of Object.entries(kinds)) {
      const { exchange } = await channel.assertExchange(`node-${kind}-${process.pid}`, kind, { durable: false });
      const { queue } = await channel.assertQueue('', { exclusive: true });
      const publish = (key) =>
        channel.publish(exchange, key, Buffer.from(key), kind === 'headers' ? { headers: key === 'color' ? { color: 'red' } : { color: 'red', size: 3 } } : {});
      await channel.bindQueue(queue, exchange, pattern, args);
      Object.keys(routed).forEach(publish);
      const expected = Object.keys(routed).filter((key) => routed[key]);
      assert.equal(await count(channel, queue), expected.length, kind);
      assert.deepEqual(bodies(await take(channel, queue, expected.length)), expected, kind);
      await channel.unbindQueue(queue, exchange, pattern, args);
      Object.keys(routed).forEach(publish);
      assert.equal(await count(channel, queue), 0, `${kind} unbound`);
      await channel.deleteExchange(exchange);
    }
  },

  async 'exchange-to-exchange'(_, channel) {
    const [from, to] = ['from', 'to'].map((name) => `node-${name}-${process.pid}`);
    await channel.assertExchange(from, 'topic', { durable: false });
    await channel.assertExchange(to, 'fanout', { durable: false });
    const { queue } = await channel.assertQueue('', { exclusive: true });
    await channel.bindQueue(queue, to, '');
    await channel.bindExchange(to, from, 'a.*');
    channel.publish(from, 'a.b', Buffer.from('over two'));
    channel.publish(from, 'b.b', Buffer.from('lost'));
    assert.deepEqual(bodies(await take(channel, queue, 1)), ['over two']);
    await channel.unbindExchange(to, from, 'a.*');
    channel.publish(from, 'a.b', Buffer.from('lost'));
    assert.equal(await count(channel, queue), 0);
    await channel.deleteExchange(from);
    await channel.deleteExchange(to);
  },

  async 'alternate-exchange'(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const exchange = `node-alternate-${process.pid}`;
    await channel.assertExchange(exchange, 'direct', { durable: false, alternateExchange: 'amq.fanout' });
    await channel.bindQueue(queue, 'amq.fanout', '');
    channel.publish(exchange, 'nobody', Buffer.from('caught'), { mandatory: true });
    assert.deepEqual(bodies(await take(channel, queue, 1)), ['caught']);
    await channel.deleteExchange(exchange);
  },

  async names(_, channel) {
    const name = 'ü'.repeat(127) + '!';
    await channel.assertQueue(name, { exclusive: true });
    await channel.assertExchange(name, 'direct', { durable: false });
    await channel.bindQueue(name, name, name);
    channel.publish(name, name, Buffer.from('x'));
    const [message] = await take(channel, name, 1);
    assert.equal(message.fields.exchange, name);
    assert.equal(message.fields.routingKey, name);
    await channel.deleteExchange(name);
  },

  async properties(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const properties = {
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      headers: { answer: 42 },
      deliveryMode: 2,
      priority: 7,
      correlationId: 'correlation',
      replyTo: 'somewhere',
      expiration: '60000',
      messageId: 'message',
      timestamp: 1_700_000_000,
      type: 'kind',
      userId: 'guest',
      appId: 'interop',
    };
    channel.sendToQueue(queue, Buffer.from('{}'), properties);
    const [message] = await take(channel, queue, 1);
    assert.deepEqual(message.properties, { ...properties, clusterId: undefined });
  },

  async headers(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const plain = {
      string: 'zwölf rabbits',
      byte: -12,
      short: -30_000,
      int: 2_000_000_000,
      long: -(2 ** 52),
      double: 0.1,
      yes: true,
      no: false,
      nothing: null,
      bytes: Buffer.from([0, 1, 255]),
      list: [1, 'two', [3, null], { four: 4 }],
      table: { deep: { deeper: ['x'] } },
      timestamp: { '!': 'timestamp', value: 1_700_000_000 },
      decimal: { '!': 'decimal', value: { places: 2, digits: 314 } },
    };
    const typed = { float: ['float', 0.5], uint8: ['uint8', 200], uint16: ['uint16', 60_000], uint32: ['uint32', 4_000_000_000] };
    const headers = { ...plain };
    for (const [name, [type, value]] of Object.entries(typed)) headers[name] = { '!': type, value };
    channel.sendToQueue(queue, Buffer.from('x'), { headers });
    const [message] = await take(channel, queue, 1);
    const expected = { ...plain };
    for (const [name, [, value]] of Object.entries(typed)) expected[name] = value;
    assert.deepEqual(message.properties.headers, expected);
  },

  async 'empty-body'(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    channel.sendToQueue(queue, Buffer.alloc(0), { type: 'empty' });
    const [message] = await take(channel, queue, 1);
    assert.equal(message.content.length, 0);
    assert.equal(message.properties.type, 'empty');
  },

  async 'large-body'(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const body = Buffer.alloc(5_000_000, Buffer.from(Array.from({ length: 251 }, (_, i) => i)));
    channel.sendToQueue(queue, body);
    const [message] = await take(channel, queue, 1);
    assert.ok(body.equals(message.content));
  },

  async interleaved(connection, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const sent = Array.from({ length: 8 }, (_, i) => Buffer.alloc(1_000_000 + i, String(i)));
    const channels = await Promise.all(sent.map(() => connection.createChannel()));
    channels.forEach((each, i) => each.sendToQueue(queue, sent[i]));
    const arrived = (await take(channel, queue, 8)).map((message) => message.content);
    arrived.sort((a, b) => a.length - b.length);
    assert.ok(arrived.every((body, i) => body.equals(sent[i])));
  },

  async acks(connection, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    for (const body of ['1', '2', '3', '4', '5']) channel.sendToQueue(queue, Buffer.from(body));
    const other = await connection.createChannel();
    const messages = await take(other, queue, 5, { ack: false });
    other.ack(messages[0]);
    other.ack(messages[2], true);
    await other.close();
    const left = await take(channel, queue, 2);
    assert.deepEqual(bodies(left), ['4', '5']);
    assert.ok(left.every((message) => message.fields.redelivered));
    assert.equal(await count(channel, queue), 0);
  },

  async 'nack-requeue'(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    channel.sendToQueue(queue, Buffer.from('again'));
    const [first] = await take(channel, queue, 1, { ack: false });
    assert.equal(first.fields.redelivered, false);
    channel.nack(first);
    const [second] = await take(channel, queue, 1);
    assert.equal(second.fields.redelivered, true);
    assert.equal(second.content.toString(), 'again');
  },

  async reject(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    channel.sendToQueue(queue, Buffer.from('1'));
    const [first] = await take(channel, queue, 1, { ack: false });
    channel.reject(first, true);
    const [second] = await take(channel, queue, 1, { ack: false });
    assert.equal(second.fields.redelivered, true);
    channel.reject(second, false);
    assert.equal(await channel.get(queue), false);
  },

  async recover(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    channel.sendToQueue(queue, Buffer.from('again'));
    await take(channel, queue, 1, { ack: false });
    await channel.recover();
    const [message] = await take(channel, queue, 1);
    assert.equal(message.fields.redelivered, true);
  },

  async prefetch(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    for (let i = 0; i < 10; i++) channel.sendToQueue(queue, Buffer.from(String(i)));
    await channel.prefetch(3);
    const messages = [];
    await channel.consume(queue, (message) => messages.push(message));
    await eventually(() => messages.length >= 3, 'three messages');
    await sleep(100);
    assert.deepEqual(bodies(messages), ['0', '1', '2']);
    channel.ack(messages[0]);
    await eventually(() => messages.length >= 4, 'one more');
    await sleep(100);
    assert.deepEqual(bodies(messages), ['0', '1', '2', '3']);
  },

  async get(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    channel.sendToQueue(queue, Buffer.from('1'));
    channel.sendToQueue(queue, Buffer.from('2'));
    const message = await channel.get(queue);
    assert.equal(message.content.toString(), '1');
    assert.equal(message.fields.messageCount, 1);
    channel.ack(message);
    assert.equal((await channel.get(queue, { noAck: true })).content.toString(), '2');
    assert.equal(await channel.get(queue), false);
  },

  async cancel(connection, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    let told;
    const cancelled = new Promise((resolve) => (told = resolve));
    await channel.consume(queue, (message) => message === null && told());
    const other = await connection.createChannel();
    await other.deleteQueue(queue);
    await within(cancelled, 'a message that is null');
  },

  async confirms(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    let confirmed = 0;
    for (let i = 0; i < 1000; i++) {
      channel.sendToQueue(queue, Buffer.from(String(i)), { persistent: i % 2 === 0 }, (error) => (confirmed += error ? 0 : 1));
    }
    await within(channel.waitForConfirms(), 'the confirms');
    assert.equal(confirmed, 1000);
    assert.equal(await count(channel, queue), 1000);
  },

  async nacks(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true, maxLength: 1, overflow: 'reject-publish' });
    channel.sendToQueue(queue, Buffer.from('fits'));
    await within(channel.waitForConfirms(), 'the confirm');
    channel.sendToQueue(queue, Buffer.from('does not'));
    await assert.rejects(within(channel.waitForConfirms(), 'the nack'), /message nacked/);
  },

  async returns(_, channel) {
    const returned = once(channel, 'return');
    channel.publish('amq.direct', 'nobody', Buffer.from('come back'), { mandatory: true, messageId: '1' });
    const [message] = await within(returned, 'the return');
    assert.equal(message.fields.replyCode, 312);
    assert.equal(message.fields.replyText, 'NO_ROUTE');
    assert.equal(message.fields.exchange, 'amq.direct');
    assert.equal(message.fields.routingKey, 'nobody');
    assert.equal(message.properties.messageId, '1');
    assert.equal(message.content.toString(), 'come back');
  },

  async rpc(connection, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const server = await connection.createChannel();
    await server.consume(queue, (request) => {
      const { replyTo, correlationId } = request.properties;
      server.sendToQueue(replyTo, Buffer.from(request.content.toString().toUpperCase()), { correlationId });
      server.ack(request);
    });
    let answered;
    const answer = new Promise((resolve) => (answered = resolve));
    await channel.consume('amq.rabbitmq.reply-to', answered, { noAck: true });
    channel.sendToQueue(queue, Buffer.from('hello'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '7' });
    const message = await within(answer, 'the answer');
    assert.equal(message.content.toString(), 'HELLO');
    assert.equal(message.properties.correlationId, '7');
  },

  async 'dead-letters'(_, channel) {
    const { queue: dead } = await channel.assertQueue('', { exclusive: true });
    const { queue } = await channel.assertQueue('', { exclusive: true, deadLetterExchange: '', deadLetterRoutingKey: dead });
    channel.sendToQueue(queue, Buffer.from('rejected'));
    const [message] = await take(channel, queue, 1, { ack: false });
    channel.reject(message, false);
    const [first] = await take(channel, dead, 1);
    channel.sendToQueue(queue, Buffer.from('expired'), { expiration: 20 });
    const [second] = await take(channel, dead, 1);
    assert.deepEqual(bodies([first, second]), ['rejected', 'expired']);
    const [{ time, ...death }, ...others] = first.properties.headers['x-death'];
    assert.deepEqual(death, { count: 1, reason: 'rejected', queue, exchange: '', 'routing-keys': [queue] });
    assert.equal(time['!'], 'timestamp');
    assert.ok(Math.abs(time.value - Date.now() / 1000) < 60);
    assert.deepEqual(others, []);
    assert.equal(first.properties.headers['x-first-death-reason'], 'rejected');
    assert.equal(second.properties.headers['x-death'][0].reason, 'expired');
    assert.equal(second.properties.headers['x-death'][0]['original-expiration'], '20');
    assert.equal(second.properties.expiration, undefined);
  },

  async quorum(_, channel) {
    const queue = `node-quorum-${process.pid}`;
    await channel.assertQueue(queue, { arguments: { 'x-queue-type': 'quorum' } });
    channel.sendToQueue(queue, Buffer.from('again'), { persistent: true });
    const [first] = await take(channel, queue, 1, { ack: false });
    channel.nack(first);
    const [second] = await take(channel, queue, 1);
    assert.equal(second.properties.headers['x-delivery-count'], 1);
    await channel.deleteQueue(queue);
  },

  async priorities(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true, maxPriority: 5 });
    for (const priority of [1, 5, 3, 0, 5]) channel.sendToQueue(queue, Buffer.from(String(priority)), { priority });
    assert.equal(await count(channel, queue), 5);
    assert.deepEqual(bodies(await take(channel, queue, 5)), ['5', '5', '3', '1', '0']);
  },

  async ttl(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true, messageTtl: 30 });
    const { queue: other } = await channel.assertQueue('', { exclusive: true });
    channel.sendToQueue(queue, Buffer.from('short-lived'));
    channel.sendToQueue(other, Buffer.from('short-lived'), { expiration: 30 });
    channel.sendToQueue(other, Buffer.from('stays'), { expiration: 60_000 });
    await sleep(200);
    assert.equal(await channel.get(queue), false);
    assert.deepEqual(bodies([await channel.get(other)]), ['stays']);
  },

  async 'not-found'(connection, channel) {
    quiet(channel);
    await assert.rejects(channel.checkQueue('node-nowhere'), { code: 404, message: /NOT_FOUND - no queue 'node-nowhere' in vhost '\/'/ });
    const next = await connection.createChannel();
    const failed = once(next, 'error');
    next.publish('node-nowhere', '', Buffer.from('x'));
    const [error] = await within(failed, 'the error');
    assert.equal(error.code, 404);
    assert.match(error.message, /NOT_FOUND - no exchange 'node-nowhere' in vhost '\/'/);
    await connection.createChannel();
  },

  async 'precondition-failed'(connection, channel) {
    quiet(channel);
    const { queue } = await channel.assertQueue(`node-precondition-${process.pid}`, { exclusive: true, autoDelete: true });
    await assert.rejects(channel.assertQueue(queue, { exclusive: true, autoDelete: false }), {
      code: 406,
      message: new RegExp(`PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '${queue}' in vhost '/': received 'false' but current is 'true'`),
    });
    const next = await connection.createChannel();
    quiet(next);
    const failed = once(next, 'error');
    next.ack({ fields: { deliveryTag: 99 } });
    const [error] = await within(failed, 'the error');
    assert.equal(error.code, 406);
    assert.match(error.message, /PRECONDITION_FAILED - unknown delivery tag 99/);
    await connection.createChannel();
  },

  async 'access-refused'(connection, channel) {
    quiet(channel);
    await assert.rejects(channel.assertQueue('amq.mine'), {
      code: 403,
      message: /ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq\.\*'/,
    });
    const mine = await connection.createChannel();
    const { queue } = await mine.assertQueue('', { exclusive: true });
    await mine.consume(queue, () => {}, { exclusive: true });
    const other = await connection.createChannel();
    quiet(other);
    await assert.rejects(other.consume(queue, () => {}), { code: 403, message: /ACCESS_REFUSED - queue '.*' in vhost '\/' in exclusive use/ });
    await connection.createChannel();
  },

  async 'resource-locked'(_, channel) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const other = await amqp.connect(URL);
    const refused = await other.createChannel();
    quiet(refused);
    await assert.rejects(refused.checkQueue(queue), { code: 405, message: /RESOURCE_LOCKED - cannot obtain exclusive access to locked queue/ });
    await other.createChannel();
    await other.close();
  },

  async heartbeats() {
    const connection = await amqp.connect(`${URL}?heartbeat=1`);
    assert.equal(connection.connection.heartbeat, 1);
    quiet(connection);
    let isClosed = false;
    connection.on('close', () => (isClosed = true));
    await sleep(4000);
    assert.equal(isClosed, false);
    const channel = await connection.createChannel();
    await channel.assertQueue('', { exclusive: true });
    await connection.close();
  },

  async blocked() {
    const connection = await amqp.connect(URL);
    const blocked = once(connection, 'blocked');
    const channel = await connection.createChannel();
    channel.publish('', 'anywhere', Buffer.from('x'));
    const [reason] = await within(blocked, 'connection.blocked');
    assert.equal(reason, 'low on memory');
    connection.connection.stream.destroy(); // a close would not be read
    await sleep(10);
  },

  // Two means: amqplib's own, and amqp-connection-manager over it.
  async recovery() {
    const heard = [];
    const expect = (...messages) => eventually(() => messages.every((message) => heard.includes(message)), messages);
    const setUp = (queue) => async (channel) => {
      await channel.assertQueue(queue);
      await channel.consume(queue, (message) => {
        heard.push(message.content.toString());
        channel.ack(message);
      });
    };

    const recovering = await amqp.connect(URL, {
      recovery: { initialDelay: 50, maxDelay: 200, setup: async (model) => setUp('recovering')(await model.createChannel()) },
    });
    quiet(recovering);
    const managed = manager.connect([URL], { reconnectTimeInSeconds: 0.1 });
    const wrapper = managed.createChannel({ setup: setUp('managed') });
    const send = async (body) => {
      const channel = await recovering.createConfirmChannel();
      channel.sendToQueue('recovering', Buffer.from(`recovering ${body}`));
      await channel.waitForConfirms();
      await wrapper.sendToQueue('managed', Buffer.from(`managed ${body}`));
    };

    await within(wrapper.waitForConnect(), 'the first connection');
    await send('before');
    await expect('recovering before', 'managed before');
    const lost = [once(recovering, 'disconnect'), once(managed, 'disconnect')];
    console.log('restart');
    const [[error]] = await within(Promise.all(lost), 'the connections break');
    assert.match(error.message, /320 \(CONNECTION-FORCED\) with message "CONNECTION_FORCED/);
    await send('after');
    await expect('recovering after', 'managed after');
    await recovering.close();
    await managed.close();
  },
};

for (const name of wanted) {
  try {
    const connection = await amqp.connect(URL);
    quiet(connection);
    try {
      await checks[name](connection, await connection.createConfirmChannel());
    } finally {
      await connection.close().catch(() => {}); // it may have been closed already
    }
    console.log(`ok ${name}`);
  } catch (error) {
    console.error(error);
    console.log(`failed ${name}: ${error.message.replaceAll('\n', ' ')}`);
  }
}
process.exit();
