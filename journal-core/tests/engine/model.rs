//! Random histories of two actors: commands, deliveries, fates of appends, troubles of journal and snapshot store, kills and
//! restarts, with retention on. Whatever happens, every answer agrees with what is stored.
//!
//! All runs on one thread with a paused clock, so a history is decided by its steps alone. A failure prints the shortest
//! one that still fails, and leaves its seed in `model.regressions` beside this file: from then on
//! `cargo test -p journal-core --test engine model` repeats it first. `PROPTEST_CASES=20000` in front of that looks
//! further, `PROPTEST_RNG_SEED=7` starts from a given seed.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use journal_core::{
    Backoff, Command, DeliveryId, Effect, Effects, ErrorKind, Handles, MemoryJournal, Operation, Outcome,
    PersistError, Persistence, Redelivery, SequenceNr,
};
use proptest::{collection::vec, option, prelude::*, test_runner::FileFailurePersistence};
use tokio::time::{sleep, timeout};

use crate::common::*;

#[derive(Debug, Clone)]
enum Step {
    Send {
        actor: usize,
        kind: Kind,
    },
    /// Lets time pass; without it commands gather.
    Pass(u64),
    Fate(Fate),
    Journal(Operation, Trouble),
    Snapshots(Call, Fault),
    Kill(usize),
    End(usize),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Persist(usize),
    Effect,
    Read,
    /// Waits until the state has so many events.
    Stash(i64),
    Wake,
    Snapshot,
    DeleteTo(u64),
    Deliver,
    Confirm(u64),
    Restart,
    RestartWrongly,
    Unencodable,
    Panic(usize),
    Stop,
}

#[derive(Debug, Clone)]
struct Setup {
    snapshot_every: u64,
    keep: usize,
    delete_events: bool,
    strict: bool,
    max_waiting: usize,
    append_events: usize,
    unknown_wait: u64,
    group_commit: bool,
    permits: usize,
    /// At most so many unconfirmed deliveries, if any.
    delivers: Option<usize>,
}

fn setup() -> impl Strategy<Value = Setup> {
    (
        prop_oneof![Just(0_u64), 1..6_u64],
        1..3_usize,
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop_oneof![Just(4_usize), Just(4_096)],
        prop_oneof![Just(2_usize), Just(1_000)],
        prop_oneof![Just(2_u64), Just(60_000)],
        any::<bool>(),
        1..3_usize,
        option::of(prop_oneof![Just(2_usize), Just(1_000)]),
    )
        .prop_map(
            |(
                snapshot_every,
                keep,
                delete_events,
                strict,
                max_waiting,
                append_events,
                unknown_wait,
                group_commit,
                permits,
                delivers,
            )| Setup {
                snapshot_every,
                keep,
                delete_events: delete_events && snapshot_every > 0,
                strict,
                max_waiting,
                append_events,
                unknown_wait,
                group_commit,
                permits,
                delivers,
            },
        )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        8 => (0..4_usize).prop_map(Kind::Persist),
        3 => Just(Kind::Effect),
        4 => Just(Kind::Read),
        2 => (0..8_i64).prop_map(Kind::Stash),
        2 => Just(Kind::Wake),
        2 => Just(Kind::Snapshot),
        1 => (0..12_u64).prop_map(Kind::DeleteTo),
        4 => Just(Kind::Deliver),
        3 => (0..20_u64).prop_map(Kind::Confirm),
        1 => Just(Kind::Restart),
        1 => Just(Kind::RestartWrongly),
        1 => Just(Kind::Unencodable),
        1 => (0..4_usize).prop_map(Kind::Panic),
        1 => Just(Kind::Stop),
    ];
    let fate = prop_oneof![
        4 => Just(Fate::Stored),
        2 => Just(Fate::NotStored(ErrorKind::Unavailable)),
        1 => Just(Fate::NotStored(ErrorKind::Poisoned)),
        3 => Just(Fate::StoredButUnknown),
        3 => Just(Fate::LostButUnknown),
        2 => option::of(0..4_usize).prop_map(Fate::Reject),
        1 => Just(Fate::OverwrittenButUnknown(Happened::Added(LEAST * LEAST))),
        1 => Just(Fate::FencedBefore),
        1 => Just(Fate::StoredThenFenced),
        1 => Just(Fate::FencedUnknown),
        1 => Just(Fate::WrongNumbers),
        1 => Just(Fate::Panic),
    ];
    let trouble = prop_oneof![
        Just(Trouble::Fails),
        Just(Trouble::Panics),
        Just(Trouble::Slow(Duration::from_millis(3))),
        Just(Trouble::Hangs),
    ];
    let operation = prop_oneof![
        Just(Operation::Claim),
        Just(Operation::Replay),
        Just(Operation::Bounds)
    ];
    let deletion = prop_oneof![Just(Trouble::Fails), Just(Trouble::Panics)];
    let save = prop_oneof![Just(Fault::Fails), Just(Fault::Panics)];
    let load = prop_oneof![
        Just(Fault::Fails),
        Just(Fault::Garbles),
        Just(Fault::Skips),
        Just(Fault::Hangs)
    ];
    let call = prop_oneof![Just(Call::Save), Just(Call::List), Just(Call::Delete)];
    let step = prop_oneof![
        24 => (0..2_usize, kind).prop_map(|(actor, kind)| Step::Send { actor, kind }),
        6 => (0..4_u64).prop_map(Step::Pass),
        6 => fate.prop_map(Step::Fate),
        1 => (operation, trouble).prop_map(|(operation, trouble)| Step::Journal(operation, trouble)),
        1 => deletion.prop_map(|trouble| Step::Journal(Operation::DeleteTo, trouble)),
        1 => (call, save).prop_map(|(call, fault)| Step::Snapshots(call, fault)),
        1 => load.prop_map(|fault| Step::Snapshots(Call::Load, fault)),
        1 => (0..2_usize).prop_map(Step::Kill),
        1 => (0..2_usize).prop_map(Step::End),
    ];
    vec(step, 0..80)
}

/// Persists one event and notes when its effect runs.
struct Noted(i64, Box<dyn FnOnce() + Send>);

impl Command for Noted {
    type Reply = Reply<i64>;
}

impl Handles<Noted> for Summing {
    fn handle(&self, _: &Sum, Noted(amount, run): Noted) -> Effect<Self, Reply<i64>> {
        self.persist(Happened::Added(amount))
            .then_run(move |_| run)
            .then_reply(|state| Ok(state.total))
    }
}

#[derive(Debug)]
enum Answer {
    Total(i64),
    Done,
    Failed(PersistError),
    /// Its port was dropped: the command was not handled.
    Closed,
}

type Answering = Pin<Box<dyn Future<Output = Answer>>>;

/// A command that was sent, in the order of sending.
struct Sent {
    number: i64,
    kind: Kind,
    answer: Answering,
}

/// No event of a command that is never stored is as large.
const LEAST: i64 = 1_000_000;

/// The amounts of a command's events, different from those of all others.
fn amounts(number: i64, events: usize) -> Vec<i64> {
    (0..)
        .take(events)
        .map(|index| LEAST + number * 10 + index)
        .collect()
}

fn send(actor: &Mini, number: i64, kind: Kind, effects: &EffectLog) -> Answering {
    fn total(reply: tokio::sync::oneshot::Receiver<Reply<i64>>) -> Answering {
        Box::pin(async move {
            match reply.await {
                Ok(Ok(total)) => Answer::Total(total),
                Ok(Err(Failure(error))) => Answer::Failed(error),
                Err(_) => Answer::Closed,
            }
        })
    }
    fn done(reply: tokio::sync::oneshot::Receiver<Reply<()>>) -> Answering {
        Box::pin(async move {
            match reply.await {
                Ok(Ok(())) => Answer::Done,
                Ok(Err(Failure(error))) => Answer::Failed(error),
                Err(_) => Answer::Closed,
            }
        })
    }
    let amount = LEAST + number * 10;
    match kind {
        Kind::Persist(events) => total(actor.send(AddAll(amounts(number, events)))),
        Kind::Effect => {
            let effects = effects.clone();
            total(actor.send(Noted(amount, Box::new(move || effects.ran(amount)))))
        }
        Kind::Read => total(actor.send(Get)),
        Kind::Stash(least) => total(actor.send(AddOnce(least * LEAST, amount))),
        Kind::Wake => total(actor.send(AddAndUnstash(amount))),
        Kind::Snapshot => done(actor.send(TakeSnapshot)),
        Kind::DeleteTo(to) => done(actor.send(DeleteTo(to))),
        Kind::Deliver => total(actor.send(AddAndDeliver(amount, Parcel::Holding(amount)))),
        Kind::Confirm(id) => done(actor.send(Confirm(vec![id]))),
        Kind::Restart => done(actor.send(Restart)),
        Kind::RestartWrongly => done(actor.send(RestartWrongly)),
        Kind::Unencodable => done(actor.send(Unencodable)),
        Kind::Panic(0) => done(actor.send(PanicInHandle)),
        Kind::Panic(1) => done(actor.send(PanicInApply)),
        Kind::Panic(2) => done(actor.send(PanicInReply)),
        Kind::Panic(_) => done(actor.send(PanicInOuter)),
        Kind::Stop => done(actor.send(Quit)),
    }
}

/// The effects that ran, and whether their events were stored by then.
#[derive(Clone)]
struct EffectLog {
    journal: Arc<Controlled>,
    ran: Arc<Mutex<Vec<(i64, bool)>>>,
}

impl EffectLog {
    fn ran(&self, amount: i64) {
        let history = self.journal.history.lock().unwrap();
        let stored = history
            .values()
            .flatten()
            .any(|event| *event == Happened::Added(amount));
        self.ran.lock().unwrap().push((amount, stored));
    }
}

/// Whose, its id, and whether it was stored by then.
type Sending = (&'static str, u64, bool);

/// What was sent.
#[derive(Clone)]
struct DeliveryLog {
    journal: Arc<Controlled>,
    sent: Arc<Mutex<Vec<Sending>>>,
}

impl DeliveryLog {
    fn hooks(&self, whose: &'static str) -> Hooks {
        let Self { journal, sent } = self.clone();
        let send = move |id: DeliveryId, parcel: &Parcel| {
            let history = journal.history.lock().unwrap();
            let index = usize::try_from(id.get() - 1).unwrap();
            let event = history.get(&pid(whose)).and_then(|history| history.get(index));
            let stored = event == Some(&Happened::Owed(parcel.clone()));
            sent.lock().unwrap().push((whose, id.get(), stored));
        };
        Hooks {
            send: Some(Arc::new(send)),
            ..Hooks::default()
        }
    }

    /// The ids that were sent, from the one at `start` on.
    fn since(&self, start: usize, whose: &str) -> Vec<u64> {
        let sent = self.sent.lock().unwrap();
        let of = |(id, number, _): &Sending| (*id == whose).then_some(*number);
        sent[start..].iter().filter_map(of).collect()
    }
}

const IDS: [&str; 2] = ["a", "b"];

async fn run(setup: Setup, steps: Vec<Step>) {
    let journal = Arc::new(Controlled {
        takes: Duration::from_millis(1),
        group_commit: setup.group_commit,
        ..Controlled::new(MemoryJournal::new())
    });
    let snapshots = Snapshots::new();
    let persistence = on_this_runtime(builder_with(&journal, &snapshots).recovery_permits(setup.permits));
    let effects = EffectLog {
        journal: journal.clone(),
        ran: Arc::default(),
    };
    let deliveries = DeliveryLog {
        journal: journal.clone(),
        sent: Arc::default(),
    };
    let mut actors: [Option<Mini>; 2] = [None, None];
    let mut sent: [Vec<Sent>; 2] = [vec![], vec![]];
    let mut admissions = Vec::new();
    for (number, step) in (0..).zip(steps) {
        match step {
            Step::Send { actor, kind } => {
                if actors[actor]
                    .as_ref()
                    .is_none_or(|actor| actor.task.is_finished())
                {
                    actors[actor] = spawn(&persistence, IDS[actor], &setup, &deliveries).await;
                    admissions.extend(actors[actor].iter().map(|actor| actor.admission.clone()));
                }
                if let Some(live) = &actors[actor] {
                    let answer = send(live, number, kind, &effects);
                    sent[actor].push(Sent { number, kind, answer });
                }
            }
            Step::Pass(0) => tokio::task::yield_now().await,
            Step::Pass(millis) => sleep(Duration::from_millis(millis)).await,
            Step::Fate(fate) => journal.fate(fate),
            Step::Journal(operation, trouble) => journal.trouble(operation, trouble),
            Step::Snapshots(call, fault) => snapshots.fault(call, fault),
            Step::Kill(actor) => {
                if let Some(actor) = actors[actor].take() {
                    actor.task.abort();
                    drop(actor.task.await);
                }
            }
            Step::End(actor) => {
                if let Some(actor) = actors[actor].take() {
                    actor.end_or_die().await;
                }
            }
        }
    }
    for actor in actors.iter_mut().filter_map(Option::take) {
        actor.end_or_die().await;
    }
    // No faults any more: whatever happened, the actors recover, agree with what is stored, and go on.
    journal.fates.lock().unwrap().clear();
    journal.troubles.lock().unwrap().clear();
    snapshots.faults.lock().unwrap().clear();
    for (id, sent) in IDS.into_iter().zip(sent) {
        let answers = answers(sent).await;
        let history = journal
            .history
            .lock()
            .unwrap()
            .get(&pid(id))
            .cloned()
            .unwrap_or_default();
        check(&history, &answers, &effects.ran.lock().unwrap());
        check_deliveries(&deliveries, id);
        let start = deliveries.sent.lock().unwrap().len();
        let actor = Mini::spawn_hooked(&persistence, id, deliveries.hooks(id), |options| {
            options.delivers()
        })
        .await
        .unwrap();
        let state = fold(&history);
        assert_eq!(actor.ask(Get).await.unwrap(), state);
        assert_eq!(deliveries.since(start, id), unconfirmed(&history));
        assert_eq!(actor.ask(Add(1)).await.unwrap(), state + 1);
        assert_eq!(
            journal.bounds_of(id).await.highest,
            SequenceNr::new(history.len() as u64 + 1)
        );
        actor.end().await.unwrap();
        timeout(HOUR, gone_slowly(&persistence, id))
            .await
            .expect("the id is free");
    }
    assert_eq!(persistence.available_permits(), setup.permits);
    assert!(admissions.iter().all(|admission| admission.waiting() == 0));
}

const HOUR: Duration = Duration::from_secs(3_600);

async fn gone_slowly(persistence: &Persistence, id: &str) {
    while persistence.is_live(&pid(id)) {
        sleep(Duration::from_millis(10)).await;
    }
}

async fn spawn(
    persistence: &Persistence,
    id: &'static str,
    setup: &Setup,
    deliveries: &DeliveryLog,
) -> Option<Mini> {
    // In a task of its own: a journal that panics in a recovery ends only that.
    let (persistence, setup, hooks) = (persistence.clone(), setup.clone(), deliveries.hooks(id));
    let spawning = tokio::runtime::Handle::current().spawn(async move {
        Mini::spawn_hooked(&persistence, id, hooks, |options| {
            let options = options
                .snapshot_every(setup.snapshot_every)
                .keep(setup.keep)
                .max_waiting(setup.max_waiting)
                .append_limits(setup.append_events, 1 << 20)
                .unknown_wait(Duration::from_millis(setup.unknown_wait));
            let options = if setup.delete_events {
                options.delete_events()
            } else {
                options
            };
            let options = match setup.delivers {
                Some(max_unconfirmed) => options.delivers().redelivery(Redelivery {
                    backoff: Backoff {
                        shortest: Duration::from_millis(2),
                        longest: Duration::from_millis(5),
                    },
                    attempts: 4,
                    max_unconfirmed,
                }),
                None => options,
            };
            if setup.strict { options.strict() } else { options }
        })
        .await
        .ok()
    });
    let spawned = timeout(HOUR, spawning).await.expect("it recovers or fails");
    spawned.ok().flatten()
}

async fn answers(sent: Vec<Sent>) -> VecDeque<(i64, Kind, Answer)> {
    let mut answers = VecDeque::new();
    for Sent { number, kind, answer } in sent {
        let answer = timeout(HOUR, answer).await;
        let answer = answer.unwrap_or_else(|_| panic!("{number} {kind:?} is left without an answer"));
        answers.push_back((number, kind, answer));
    }
    answers
}

fn apply(total: i64, event: &Happened) -> i64 {
    match event {
        Happened::Added(amount) => total + amount,
        Happened::Reset => 0,
        Happened::Owed(_) | Happened::Confirmed(_) => total,
        other => panic!("{other:?} is stored"),
    }
}

fn fold(history: &[Happened]) -> i64 {
    history.iter().fold(0, apply)
}

fn check(history: &[Happened], answers: &VecDeque<(i64, Kind, Answer)>, effects: &[(i64, bool)]) {
    // totals[n] is the state after n events.
    let mut totals = vec![0];
    for event in history {
        totals.push(apply(totals[totals.len() - 1], event));
    }
    let find = |amount: i64| {
        let found: Vec<_> = (1..)
            .zip(history)
            .filter_map(|(number, event)| (*event == Happened::Added(amount)).then_some(number))
            .collect();
        assert!(found.len() <= 1, "{amount} is stored twice");
        found.first().copied()
    };
    let small = |event: &Happened| matches!(event, Happened::Added(amount) if *amount < LEAST);
    assert!(
        !history.iter().any(small),
        "an event of a refused command is stored"
    );
    let (mut position, mut resets, mut maybe_resets) = (0, 0, 0);
    for (number, kind, answer) in answers {
        let amounts = match kind {
            Kind::Persist(events) => amounts(*number, *events),
            Kind::Effect | Kind::Stash(_) | Kind::Wake | Kind::Deliver => amounts(*number, 1),
            _ => Vec::new(),
        };
        let stored: Vec<usize> = amounts.iter().filter_map(|amount| find(*amount)).collect();
        assert!(
            stored.is_empty() || stored.len() == amounts.len(),
            "{number} {kind:?} is torn: {stored:?}"
        );
        assert!(stored.is_sorted_by(|first, second| first + 1 == *second));
        let may_be_stored = match answer {
            Answer::Total(total) => {
                // Acknowledged: stored, and the reply is the state right after its own events.
                assert_eq!(
                    stored.len(),
                    amounts.len(),
                    "{number} {kind:?} is acknowledged but not stored"
                );
                let at = match stored.last() {
                    Some(last) => {
                        assert_eq!(totals[*last], *total, "{number} {kind:?}");
                        *last
                    }
                    None => (position..totals.len())
                        .find(|at| totals[*at] == *total)
                        .unwrap_or_else(|| {
                            panic!("{number} {kind:?} replied {total}, which no prefix gives")
                        }),
                };
                // Stashed commands change their place.
                if !matches!(kind, Kind::Stash(_)) {
                    assert!(at >= position, "{number} {kind:?} was overtaken");
                    position = at;
                }
                true
            }
            Answer::Done => true,
            Answer::Failed(error) => error.outcome() == Outcome::Unknown,
            Answer::Closed => false,
        };
        assert!(
            may_be_stored || stored.is_empty(),
            "{number} {kind:?} is stored, but {answer:?}"
        );
        if matches!(kind, Kind::Deliver) {
            // Right behind its command's event, or not at all.
            let owed = Happened::Owed(Parcel::Holding(amounts[0]));
            let stored_at = (1..)
                .zip(history)
                .find_map(|(at, event)| (*event == owed).then_some(at));
            assert_eq!(stored_at, stored.first().map(|event| event + 1));
        }
        if matches!(kind, Kind::Restart) {
            resets += usize::from(matches!(answer, Answer::Done));
            maybe_resets += usize::from(may_be_stored);
        }
        if matches!(kind, Kind::Effect) {
            let ran: Vec<_> = effects
                .iter()
                .filter(|(amount, _)| *amount == amounts[0])
                .collect();
            assert!(
                ran.iter().all(|(_, stored)| *stored),
                "an effect ran before its event was stored"
            );
            let acknowledged = matches!(answer, Answer::Total(_));
            assert_eq!(
                ran.len(),
                usize::from(acknowledged),
                "{number}: {answer:?}, effects: {}",
                ran.len()
            );
        }
        if let (Kind::RestartWrongly | Kind::Unencodable | Kind::Panic(_), Answer::Done) = (kind, answer) {
            panic!("{number} {kind:?} succeeded");
        }
    }
    let stored_resets = history.iter().filter(|event| **event == Happened::Reset).count();
    assert!((resets..=maybe_resets).contains(&stored_resets));
}

/// The ids of the deliveries that are stored and not confirmed. Each is confirmed once at most.
fn unconfirmed(history: &[Happened]) -> Vec<u64> {
    let mut unconfirmed = Vec::new();
    for (number, event) in (1..).zip(history) {
        match event {
            Happened::Owed(_) => unconfirmed.push(number),
            Happened::Confirmed(id) => {
                let index = unconfirmed.iter().position(|known| known == id);
                unconfirmed.remove(index.expect("what is confirmed was unconfirmed"));
            }
            _ => {}
        }
    }
    unconfirmed
}

/// What was sent was stored, and first in the order of its recording.
fn check_deliveries(deliveries: &DeliveryLog, id: &str) {
    assert!(
        deliveries
            .sent
            .lock()
            .unwrap()
            .iter()
            .all(|(_, _, stored)| *stored)
    );
    let mut first = Vec::new();
    for number in deliveries.since(0, id) {
        if !first.contains(&number) {
            first.push(number);
        }
    }
    assert!(first.is_sorted(), "{id}: {first:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_every_answer_agrees_with_what_is_stored(setup in setup(), steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        // With a paused clock whatever waits for ever is there at once.
        runtime.block_on(async { timeout(100 * HOUR, run(setup, steps)).await }).expect("nothing hangs");
    }
}
