//! Messages that the server publishes, over a connection of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use super::address::Address;
use super::classify;
use super::dial::{dial, text_of};
use super::fault::{CallError, Fault};
use super::link::{Link, OnPush};
use super::timing::Timing;

/// So many messages wait for a receiver that is slow; what it misses is a gap to it.
const KEPT_MESSAGES: usize = 64;

/// So many subscribers wait for a connection; further ones wait to wait.
const KEPT_ORDERS: usize = 64;

/// What is heard on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue::redis) enum Heard {
    /// Somebody published this.
    Message(Vec<u8>),
    /// Messages may have been missed: look for yourself.
    Gap,
}

/// A channel's messages from now on, over reconnects.
pub(in crate::queue::redis) struct Subscription {
    receiver: broadcast::Receiver<Heard>,
    /// Keeps the connection while somebody listens.
    _hub: Arc<Hub>,
}

impl Subscription {
    /// The next message, or that some may have been missed: said when the connection is lost, and again when it is back.
    pub(in crate::queue::redis) async fn next(&mut self) -> Heard {
        match self.receiver.recv().await {
            Ok(heard) => heard,
            Err(broadcast::error::RecvError::Lagged(_)) => Heard::Gap,
            // The sender goes only after its last receiver.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The connection that listens, and who listens.
pub(super) struct Hub {
    orders: mpsc::Sender<Order>,
    last_fault: Arc<Mutex<Option<CallError>>>,
    task: JoinHandle<()>,
}

struct Order {
    channel: String,
    answer: oneshot::Sender<Result<broadcast::Receiver<Heard>, CallError>>,
}

impl Hub {
    /// Starts to listen with the first order.
    pub(super) fn start(address: Arc<Address>, timing: Timing) -> Self {
        let (orders, taken) = mpsc::channel(KEPT_ORDERS);
        let last_fault = Arc::default();
        let keeper = Keeper {
            address,
            timing,
            channels: Arc::default(),
            waiting: Vec::new(),
            orders: taken,
            last_fault: Arc::clone(&last_fault),
        };
        Self { orders, last_fault, task: tokio::spawn(keeper.keep()) }
    }

    /// Returns once the server has confirmed it: what is published after that is heard.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        channel: &str,
        at: &Arc<str>,
        timing: &Timing,
    ) -> Result<Subscription, CallError> {
        let (answer, answered) = oneshot::channel();
        let order = Order { channel: channel.to_owned(), answer };
        let ordered = async {
            self.orders.send(order).await.ok()?;
            answered.await.ok()
        };
        let result = timeout_at(Instant::now() + timing.patience, ordered).await.ok().flatten();
        let result = result.unwrap_or_else(|| {
            let never = || CallError::new(Fault::NotSent, at, "it did not answer in time");
            Err(locked(&self.last_fault).clone().unwrap_or_else(never))
        });
        Ok(Subscription { receiver: result?, _hub: Arc::clone(self) })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Channels = Mutex<HashMap<String, broadcast::Sender<Heard>>>;

struct Keeper {
    address: Arc<Address>,
    timing: Timing,
    /// Those that the server confirmed, on this connection or an earlier one.
    channels: Arc<Channels>,
    /// Those that were ordered, and not yet asked for.
    waiting: Vec<Order>,
    orders: mpsc::Receiver<Order>,
    last_fault: Arc<Mutex<Option<CallError>>>,
}

impl Keeper {
    async fn keep(mut self) {
        let mut failures = 0;
        for turn in 0.. {
            self.prune();
            if self.waiting.is_empty() && locked(&self.channels).is_empty() {
                match self.orders.recv().await {
                    Some(order) => self.waiting.push(order),
                    None => return,
                }
            }
            let fault = match dial(&self.address, &self.timing, turn, Some(self.publisher())).await {
                Ok(link) => {
                    let fault = self.listen(&link).await;
                    if link.has_served() {
                        failures = 0;
                    }
                    self.announce_gap();
                    fault
                }
                Err(fault) => fault,
            };
            tracing::debug!(%fault, "the connection that listens to the queue's Redis is lost");
            if !fault.kind.passes() {
                self.take_orders();
                for order in self.waiting.drain(..) {
                    // Who does not wait any more has been told already.
                    drop(order.answer.send(Err(fault.clone())));
                }
            }
            *locked(&self.last_fault) = Some(fault);
            sleep(self.timing.pause(failures)).await;
            failures += 1;
        }
    }

    /// Hears until something fails.
    async fn listen(&mut self, link: &Link) -> CallError {
        let known: Vec<String> = locked(&self.channels).keys().cloned().collect();
        if !known.is_empty() {
            if let Err(error) = link.subscribe(&known).await {
                return classify::of_call(&error, link.at(), None);
            }
            self.announce_gap();
        }
        let mut ticks = interval(self.timing.ping);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.take_orders();
            while let Some(order) = self.waiting.pop() {
                if let Some(fault) = self.serve(link, order).await {
                    return fault;
                }
            }
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => self.waiting.push(order),
                    None => std::future::pending().await,
                },
                () = link.closed() => return lost(link),
                _ = ticks.tick() => {
                    let unheard = self.prune();
                    let tidied = if unheard.is_empty() { Ok(()) } else { link.unsubscribe(&unheard).await };
                    let alive = link.send(&redis::cmd("PING")).await;
                    if let Err(error) = tidied.and(alive) {
                        return classify::of_call(&error, link.at(), None);
                    }
                }
            }
        }
    }

    /// Subscribes for one; returns a fault of the connection.
    async fn serve(&self, link: &Link, order: Order) -> Option<CallError> {
        if let Some(sender) = locked(&self.channels).get(&order.channel) {
            drop(order.answer.send(Ok(sender.subscribe())));
            return None;
        }
        // First the sender: a message may come right behind the confirmation.
        let (sender, receiver) = broadcast::channel(KEPT_MESSAGES);
        locked(&self.channels).insert(order.channel.clone(), sender);
        let Err(error) = link.subscribe(std::slice::from_ref(&order.channel)).await else {
            drop(order.answer.send(Ok(receiver)));
            return None;
        };
        locked(&self.channels).remove(&order.channel);
        let fault = classify::of_call(&error, link.at(), None);
        let is_lost = fault.kind == Fault::Unknown;
        // A subscription that took effect unnoticed does no harm.
        let fault = if is_lost { lost(link) } else { fault };
        drop(order.answer.send(Err(fault.clone())));
        is_lost.then_some(fault)
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.waiting.push(order);
        }
    }

    /// Forgets the channels that nobody listens to, and returns them.
    fn prune(&mut self) -> Vec<String> {
        self.waiting.retain(|order| !order.answer.is_closed());
        let mut channels = locked(&self.channels);
        let unheard: Vec<String> =
            channels.iter().filter(|(_, sender)| sender.receiver_count() == 0).map(|(name, _)| name.clone()).collect();
        for name in &unheard {
            channels.remove(name);
        }
        unheard
    }

    fn announce_gap(&self) {
        for sender in locked(&self.channels).values() {
            drop(sender.send(Heard::Gap));
        }
    }

    fn publisher(&self) -> OnPush {
        let channels = Arc::clone(&self.channels);
        Box::new(move |push| publish(&channels, &push))
    }
}

fn lost(link: &Link) -> CallError {
    CallError::new(Fault::NotSent, link.at(), "the connection was lost")
}

fn publish(channels: &Channels, push: &PushInfo) {
    let (PushKind::Message, [channel, Value::BulkString(message)]) = (&push.kind, push.data.as_slice()) else {
        return;
    };
    if let Some(sender) = text_of(channel).and_then(|channel| locked(channels).get(channel).cloned()) {
        drop(sender.send(Heard::Message(message.clone())));
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
