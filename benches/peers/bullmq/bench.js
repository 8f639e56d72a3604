// Adds jobs to a BullMQ queue and works them off. Prints one line for `run`.
// node bench.js PORT WORKERS JOBS
'use strict';

const { Queue, Worker } = require('bullmq');
const { Redis } = require('ioredis');

const QUEUE = 'peers';
// From BullMQ's guide: 100 to 500 light jobs a bulk; a concurrency of 100 to 300 for jobs that wait rather than compute.
const BULK = 500;
const CONCURRENCY = 100;
const PAYLOAD = 'c'.repeat(150);
const DEADLINE_MS = 120_000;
// Completing a job looks through the list of those under way: with more than some hundred in all it only gets slower.
const UNDER_WAY = 400;

const [port, workers, jobs] = process.argv.slice(2).map(Number);
const concurrency = Math.min(CONCURRENCY, Math.floor(UNDER_WAY / workers));
const connection = { host: '127.0.0.1', port };
const server = new Redis(connection);

/** Microseconds of processor time that the server has used. */
async function cpuUs() {
  const info = await server.info('cpu');
  const of = (name) => Number(info.match(new RegExp(`^${name}:(.*)$`, 'm'))[1]);
  return (of('used_cpu_user_main_thread') + of('used_cpu_sys_main_thread')) * 1e6;
}

/** Jobs in a second, and microseconds of the server's for each. */
async function measured(count, work) {
  const cpu = await cpuUs();
  const start = performance.now();
  await work();
  const seconds = (performance.now() - start) / 1000;
  return [count / seconds, ((await cpuUs()) - cpu) / count];
}

async function add(count) {
  // What has been done is deleted, as in the other queues; by default BullMQ keeps it.
  const options = { connection, defaultJobOptions: { removeOnComplete: true } };
  const queues = Array.from({ length: workers }, () => new Queue(QUEUE, options));
  await Promise.all(queues.map((queue) => queue.waitUntilReady()));
  let left = count;
  const addSome = async (queue) => {
    while (left > 0) {
      const bulk = Math.min(BULK, left);
      left -= bulk;
      await queue.addBulk(Array.from({ length: bulk }, () => ({ name: 'page', data: PAYLOAD })));
    }
  };
  const result = await measured(count, () => Promise.all(queues.map(addSome)));
  await Promise.all(queues.map((queue) => queue.close()));
  return result;
}

async function workOff(count) {
  let left = count;
  let end;
  const ended = new Promise((resolve, reject) => (end = { resolve, reject }));
  const crew = Array.from({ length: workers }, () => {
    const worker = new Worker(QUEUE, async () => {}, { connection, concurrency, autorun: false });
    // Emitted when the server has answered that the job is completed.
    worker.on('completed', () => --left === 0 && end.resolve());
    worker.on('failed', (job, error) => end.reject(error));
    worker.on('error', end.reject);
    return worker;
  });
  await Promise.all(crew.map((worker) => worker.waitUntilReady()));
  const result = await measured(count, () => {
    crew.forEach((worker) => worker.run().catch(end.reject));
    return ended;
  });
  await Promise.all(crew.map((worker) => worker.close()));
  return result;
}

async function round(count) {
  await server.flushall();
  const figures = [...(await add(count)), ...(await workOff(count))];
  const queue = new Queue(QUEUE, { connection });
  const counts = Object.entries(await queue.getJobCounts()).filter(([, number]) => number > 0);
  await queue.close();
  if (counts.length > 0) throw new Error(`jobs are left: ${JSON.stringify(counts)}`);
  return figures;
}

async function main() {
  setTimeout(() => fail(new Error(`not done after ${DEADLINE_MS} ms`)), DEADLINE_MS).unref();
  // The compiler needs some thousand jobs to warm up.
  await round(Math.ceil(jobs / 4));
  console.log(['bullmq', workers, ...(await round(jobs))].join(' '));
  server.disconnect();
}

function fail(error) {
  console.error(`bullmq: ${error.message}`);
  process.exit(1);
}

main().catch(fail);
