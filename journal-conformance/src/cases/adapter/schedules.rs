//! Random schedules of everything that can happen to an actor, from a seed.

use std::{env, time::Duration};

use fastrand::Rng;
use journal_core::{Backoff, ErrorKind, Fencing, Outcome, Persistent, ReplayRange, testing::SnapshotFault};

use crate::{
    adapter::*,
    controlled::Fate,
    journal::{Driven, id},
    runner::Verdict,
};

/// With `JOURNAL_FULL=1`.
const MANY: u64 = 1_100;
const FEW: u64 = 50;
const STEPS: usize = 40;
const PERMITS: usize = 2;
const LEAST_WAITING: usize = 5;
/// What is put aside counts as waiting; the command that ends this must find a place.
const MOST_ASIDE: usize = LEAST_WAITING - 1;
/// The longest wait for an answer: many times what the slowest backoff and the longest row of repeats take.
const PATIENCE: Duration = Duration::from_secs(20);

/// P1 to P9 and R, whatever happens in which order: every message gets exactly one of a reply after durability, a typed
/// error or the framework's closed error; acknowledged is stored once and in order, refused is not stored, unknown at
/// most once; a reader never sees what is not durable, nor less than before; nothing stays taken.
///
/// `JOURNAL_SEED=n` begins with schedule n, for instance the one that failed.
pub(crate) async fn leave_no_message_without_its_one_true_answer<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let seed = env::var("JOURNAL_SEED").map_or_else(
        |_| u64::from(fastrand::u32(..)),
        |seed| seed.parse().expect("JOURNAL_SEED is a number"),
    );
    let schedules = if is_full() { MANY } else { FEW };
    let mut done = 0;
    for seed in seed..seed + schedules {
        tell(&format!("schedule JOURNAL_SEED={seed}"));
        on.renew(PERMITS);
        match Schedule::new(on, seed).await.run().await {
            Ok(commands) => done += commands,
            Err(wrong) => panic!("repeat with JOURNAL_SEED={seed}: {wrong}"),
        }
    }
    // Else this was no test of what is stored.
    let enough = usize::try_from(schedules).expect("a small number") * STEPS / 4;
    assert!(done >= enough, "only {done} commands were done");
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the seed, seen where a test fails")]
fn tell(line: &str) {
    eprintln!("{line}");
}

struct Schedule<'a, H: AdapterHarness> {
    on: &'a AdapterUnderTest<H>,
    id: String,
    dice: Rng,
    described: Persistent<Tally>,
    /// Kept, so that signals have somewhere to go.
    hears: Hears,
    actor: Actor<H>,
    ended: Begun<()>,
    waiting: Vec<(usize, Waiting)>,
    history: History,
    numbers: i64,
}

type Waiting = Begun<Result<Reply, Closed>>;

impl<'a, H: AdapterHarness> Schedule<'a, H> {
    async fn new(on: &'a AdapterUnderTest<H>, seed: u64) -> Self {
        let id = format!("schedule|{seed}");
        let mut dice = Rng::with_seed(seed);
        let (described, hears) = tally(&id);
        let mut described = described
            .unknown_wait(Duration::from_millis(dice.u64(1..50)))
            .max_waiting(dice.usize(LEAST_WAITING..60))
            .append_limits(dice.usize(1..10), 1 << 20)
            .snapshot_every(dice.u64(0..9))
            .backoff(Backoff {
                shortest: Duration::from_millis(1),
                longest: Duration::from_millis(10),
            });
        if dice.u8(0..4) == 0 {
            described = described.strict();
        }
        if dice.u8(0..3) == 0 {
            described = described.passivate_after(Duration::from_millis(1));
        }
        let actor = on.spawn_instant(&described).await;
        let ended = actor.ending();
        Self {
            on,
            id,
            dice,
            described,
            hears,
            actor,
            ended,
            waiting: Vec::new(),
            history: History::default(),
            numbers: 0,
        }
    }

    /// How many commands were done.
    async fn run(mut self) -> Result<usize, String> {
        for _ in 0..STEPS {
            self.step().await;
            self.look().await;
        }
        self.finish().await?;
        let stored = self.stored().await;
        self.history.check(&stored)?;
        self.assert_recovers(stored.iter().sum()).await?;
        Ok(self.history.done())
    }

    async fn step(&mut self) {
        let journal = self.on.journal();
        match self.dice.u8(0..100) {
            0..55 => self.send(),
            55..60 => (0..self.dice.usize(10..80)).for_each(|_| self.send()),
            60..68 => {
                // Whatever is answered now is answered too early.
                journal.acknowledgements.close();
                (0..self.dice.usize(1..6)).for_each(|_| self.send());
                self.pause().await;
            }
            68..74 => journal.acknowledgements.open(),
            74..80 => {
                let fate = self.fate();
                journal.fate(fate);
            }
            80..82 => self.on.snapshots().next(SnapshotFault::save_fails()),
            82..85 => {
                journal.set_down(true);
                self.send();
                self.pause().await;
                journal.set_down(false);
            }
            85..87 => self.another_writer().await,
            87..91 => {
                let mut stopping = self.actor.stopping();
                self.send();
                self.pause().await;
                stopping.is_done();
                journal.calm();
                stopping.await;
                self.begin_again().await;
            }
            91..95 => {
                // A framework that cannot kill ends its actors otherwise.
                if self.actor.kill().await.is_ok() {
                    self.begin_again().await;
                }
            }
            _ => self.pause().await,
        }
    }

    fn fate(&mut self) -> Fate {
        match self.dice.u8(0..6) {
            0 => Fate::NotStored(ErrorKind::Unavailable),
            1 => Fate::NotStored(ErrorKind::Poisoned),
            2 => Fate::Rejected(self.dice.usize(0..3)),
            3 => Fate::LostButUnknown,
            _ => Fate::StoredButUnknown,
        }
    }

    /// Time for what is under way to go wrong.
    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_micros(self.dice.u64(0..3_000))).await;
    }

    fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    fn send(&mut self) {
        let number = self.number();
        let one = Stores::Number { number, times: 1 };
        let (stores, in_turn, reply) = match self.dice.u8(0..100) {
            0..40 => (one, true, self.actor.asked(Add(number))),
            40..50 => {
                let times = self.dice.usize(2..5);
                let stores = Stores::Number { number, times };
                (stores, true, self.actor.asked(AddAll(vec![number; times])))
            }
            50..60 => {
                self.actor.tell(Give(number));
                self.history.sent(one, true);
                return;
            }
            60..66 if self.put_aside() < MOST_ASIDE => {
                (one, false, self.actor.asked(AddLater(number, false)))
            }
            60..86 => (Stores::Nothing, true, self.actor.asked(Read)),
            86..90 => (one, true, self.actor.asked(AddAndUnstash(number))),
            90..92 => (Stores::Nothing, true, self.actor.asked(TakeSnapshot)),
            92..94 => (Stores::Nothing, true, self.actor.asked(Unencodable)),
            94..96 => (Stores::Nothing, true, self.actor.asked(PanicInHandle)),
            96..98 => (Stores::Nothing, true, self.actor.asked(PanicInApply)),
            98..99 => (Stores::Nothing, true, self.actor.asked(PanicInReply)),
            _ => (one, true, self.actor.asked(AddAndStop(number))),
        };
        let index = self.history.sent(stores, in_turn);
        self.waiting.push((index, reply));
    }

    /// How many commands may be in the stash.
    fn put_aside(&self) -> usize {
        let aside = self
            .waiting
            .iter()
            .filter(|(index, _)| self.history.is_aside(*index));
        aside.count()
    }

    async fn another_writer(&mut self) {
        let journal = self.on.journal().inner();
        if journal.capabilities().fencing != Fencing::Claims {
            return;
        }
        let mut claim = journal.claimed(&id(&self.id)).await;
        let number = self.number();
        // The actor may have claimed the id back.
        if self.on.write(&mut claim, &Tallied::Added(number)).await.is_ok() {
            self.history.written_by_another(number);
        }
    }

    /// Takes the answers that are there, and goes on with a new actor where this one has ended.
    async fn look(&mut self) {
        for (index, mut reply) in std::mem::take(&mut self.waiting) {
            if reply.is_done() {
                self.answered(index, reply.await);
            } else {
                self.waiting.push((index, reply));
            }
        }
        if self.ended.is_done() {
            self.begin_again().await;
        }
        self.hears.signals();
    }

    fn answered(&mut self, index: usize, reply: Result<Reply, Closed>) {
        // Asked for only now: what was answered too early may be durable by now, but is not always.
        let durable = self.on.journal().durable(&id(&self.id)).get();
        let durable = usize::try_from(durable).expect("a schedule has few events");
        self.history.answered(index, answer_of(reply), durable);
    }

    async fn begin_again(&mut self) {
        self.actor = self.on.spawn_instant(&self.described).await;
        self.ended = self.actor.ending();
    }

    /// Calm: all that waits is answered, and the actor ends.
    async fn finish(&mut self) -> Result<(), String> {
        self.on.journal().calm();
        let unstashed = in_time("an unstash that succeeds", self.unstash());
        unstashed.await?;
        for (index, reply) in std::mem::take(&mut self.waiting) {
            let reply = in_time(&format!("the answer of message {index}"), reply).await?;
            self.answered(index, reply);
        }
        self.end().await
    }

    async fn unstash(&mut self) {
        loop {
            if self.ended.is_done() {
                self.begin_again().await;
            }
            let number = self.number();
            let index = self.history.sent(Stores::Number { number, times: 1 }, true);
            let reply = self.actor.asked(AddAndUnstash(number)).await;
            let unstashed = matches!(reply, Ok(Ok(_)));
            self.answered(index, reply);
            if unstashed {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Nothing of the actor stays.
    async fn end(&self) -> Result<(), String> {
        in_time("the end", self.actor.stop()).await?;
        in_time("the id", self.on.id_is_free(&self.id)).await?;
        in_time("the permits", self.on.permits_are_back(PERMITS)).await
    }

    async fn stored(&self) -> Vec<i64> {
        let id = id(&self.id);
        let records = self.on.journal().inner().records(&id, ReplayRange::ALL).await;
        decoded(&id, &records)
    }

    async fn assert_recovers(&mut self, total: i64) -> Result<(), String> {
        self.begin_again().await;
        let read = in_time("a read", self.actor.asked(Read)).await?;
        if !matches!(read, Ok(Ok(read)) if read == total) {
            return Err(format!("{total} is stored, but {read:?} recovers"));
        }
        self.end().await
    }
}

async fn in_time<T>(what: &str, comes: impl Future<Output = T>) -> Result<T, String> {
    let come = tokio::time::timeout(PATIENCE, comes).await;
    come.map_err(|_| format!("{what} did not come within {PATIENCE:?}"))
}

fn answer_of(reply: Result<Reply, Closed>) -> Answer {
    match reply {
        Ok(Ok(total)) => Answer::Total(total),
        Ok(Err(error)) => match error.outcome() {
            Outcome::Unknown => Answer::Unknown,
            Outcome::NotStored => Answer::NotStored,
        },
        Err(Closed) => Answer::Closed,
    }
}
