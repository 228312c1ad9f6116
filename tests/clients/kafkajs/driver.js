// A kafkajs client, told what to do by one JSON command a line; tests/clients/driver.py describes the conversation.
'use strict'

const readline = require('node:readline')
const zlib = require('node:zlib')
const { promisify } = require('node:util')
const { CompressionCodecs, CompressionTypes, Kafka, KafkaJSError, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')

// kafkajs brings gzip; its users add the others.
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: lz4.decompressFrame,
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: encoder => promisify(zlib.zstdCompress)(encoder.buffer),
  decompress: promisify(zlib.zstdDecompress),
})
const COMPRESSIONS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const NOTHING_YET_MS = 20
// An unknown topic is a reason for kafkajs to try again, however often that is allowed.
const FEW_TRIES = { initialRetryTime: 50, retries: 3 }

const pause = ms => new Promise(done => setTimeout(done, ms))
const bytes = text => (text === null ? null : Buffer.from(text))
const text = buffer => (buffer === null || buffer === undefined ? null : buffer.toString())

// Headers of one name are a list in kafkajs 2; kafkajs 1 knows no lists.
function headersOf(pairs) {
  const found = {}
  for (const [name, value] of pairs) found[name] = name in found ? [found[name], bytes(value)].flat() : bytes(value)
  return found
}

function row({ partition, message }) {
  const headers = Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map(value => [name, text(value)])
  )
  return [partition, Number(message.offset), text(message.key), text(message.value), headers]
}

// One member of a group, which keeps what arrives until it is asked.
class Member {
  constructor(kafka, group, topic) {
    this.consumer = kafka.consumer({ groupId: group, rebalanceTimeout: 10_000, maxWaitTimeInMs: 200 })
    this.group = group
    this.topic = topic
    this.arrived = []
    this.held = []
    this.runs = false
    const { GROUP_JOIN, REBALANCING } = this.consumer.events
    this.consumer.on(GROUP_JOIN, ({ payload }) => (this.held = payload.memberAssignment[topic] ?? []))
    this.consumer.on(REBALANCING, () => (this.held = []))
  }

  async start() {
    await this.consumer.connect()
    // Who subscribes to an unknown topic is told so, and has to try again.
    // The first name of a topic is for kafkajs 1.
    await this.consumer.subscribe({ topic: this.topic, topics: [this.topic], fromBeginning: true })
    await this.consumer.run({ autoCommit: false, eachMessage: async arrived => this.arrived.push(row(arrived)) })
    this.runs = true
  }

  async poll(timeoutMs) {
    if (!this.runs) await this.start()
    const giveUp = Date.now() + timeoutMs
    while (this.arrived.length === 0 && Date.now() < giveUp) await pause(NOTHING_YET_MS)
    return this.arrived.splice(0)
  }
}

class Driver {
  constructor(bootstrap) {
    this.brokers = bootstrap.split(',')
    this.members = []
    this.producers = []
    this.readers = 0
  }

  kafka(retry) {
    return new Kafka({ clientId: 'kafkajs', brokers: this.brokers, logLevel: logLevel.NOTHING, retry })
  }

  async admin(work) {
    const admin = this.kafka(FEW_TRIES).admin()
    await admin.connect()
    try {
      return await work(admin)
    } finally {
      await admin.disconnect()
    }
  }

  async create({ topic, partitions }) {
    const wanted = { topic, numPartitions: partitions, replicationFactor: -1 }
    const isNew = await this.admin(admin => admin.createTopics({ topics: [wanted] }))
    // The one error that kafkajs tells by what it returns.
    if (!isNew) throw Object.assign(new Error(topic), { type: 'TOPIC_ALREADY_EXISTS' })
  }

  delete({ topic }) {
    return this.admin(admin => admin.deleteTopics({ topics: [topic] }))
  }

  async open({ acks, idempotent, compression, unknown_topic_ms: unknownTopicMs }) {
    const retry = { initialRetryTime: 100, maxRetryTime: 1_000, retries: Math.ceil(unknownTopicMs / 1_000) + 4 }
    const producer = this.kafka(retry).producer({ idempotent, allowAutoTopicCreation: false })
    await producer.connect()
    return this.producers.push({ producer, acks: acks === 'all' ? -1 : Number(acks), compression }) - 1
  }

  async send({ producer: number, topic, records }) {
    const { producer, acks, compression } = this.producers[number]
    const messages = records.map(([partition, key, value, headers]) => ({
      partition,
      key: bytes(key),
      value: bytes(value),
      headers: headersOf(headers),
    }))
    const answers = await producer.send({ topic, acks, compression: COMPRESSIONS[compression], messages })
    if (acks === 0) return records.map(() => -1)
    // One batch a partition: its records lie behind each other.
    const next = new Map(answers.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]))
    return records.map(([partition]) => {
      const offset = next.get(partition)
      next.set(partition, offset + 1)
      return offset
    })
  }

  async shut({ producer }) {
    await this.producers[producer].producer.disconnect()
  }

  async read({ topic, count }) {
    // kafkajs reads in groups only: one of its own, which commits nothing.
    const reader = new Member(this.kafka(FEW_TRIES), `${topic}-reader-${process.pid}-${this.readers++}`, topic)
    try {
      const found = []
      while (found.length < count) found.push(...(await reader.poll(1_000)))
      return found
    } finally {
      await reader.consumer.disconnect()
    }
  }

  join({ group, topic }) {
    return this.members.push(new Member(this.kafka(FEW_TRIES), group, topic)) - 1
  }

  poll({ member, timeout_ms: timeoutMs }) {
    return this.members[member].poll(timeoutMs)
  }

  assignment({ member }) {
    return this.members[member].held
  }

  async commit({ member: number, offsets }) {
    const { consumer, topic } = this.members[number]
    await consumer.commitOffsets(
      offsets.map(([partition, offset]) => ({ topic, partition, offset: String(offset) }))
    )
  }

  async leave({ member }) {
    await this.members[member].consumer.disconnect()
  }

  // Only other clients ask their users for these after UNKNOWN_TOPIC_ID.
  purge() {}
  forget() {}
}

// Kafka's name of what lies at the bottom of an error.
function nameOf(error) {
  const inner = error.errors?.[0] ?? error.cause ?? error.originalError
  return inner instanceof Error ? nameOf(inner) : error.type ?? (error instanceof KafkaJSError ? error.name : 'BUG')
}

async function main() {
  const driver = new Driver(process.argv[2])
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    let answer
    try {
      answer = { ok: (await driver[command.op](command)) ?? null }
    } catch (error) {
      answer = { error: nameOf(error), detail: String(error.stack) }
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`)
  }
  process.exit(0)
}

main()
