// kafkajs in transactions: `transactions.js bootstrap topic`. Three with records and offsets, the second one aborted.
// Prints "done", or the error.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

async function run(bootstrap, topic) {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.NOTHING })
  const producer = kafka.producer({ transactionalId: 't', idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  try {
    for (let round = 0; round < 3; round++) {
      const transaction = await producer.transaction()
      for (const [partition, name] of ['a', 'b'].entries()) {
        await transaction.send({ topic, acks: -1, messages: [{ partition, value: `${round}${name}` }] })
      }
      const partitions = [{ partition: 0, offset: String(10 + round) }]
      await transaction.sendOffsets({ consumerGroupId: 'group', topics: [{ topic, partitions }] })
      await (round === 1 ? transaction.abort() : transaction.commit())
    }
  } finally {
    await producer.disconnect()
  }
}

run(...process.argv.slice(2)).then(() => console.log('done'), error => console.log(error.stack))
