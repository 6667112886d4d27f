//! The persisting state machine of one claim: which events are gathered, which are in flight, and which replies wait
//! for which number. No I/O, no clock, no lock; `H` is what is held back.

use std::{collections::VecDeque, sync::Arc};

use crate::{AtomicWrite, SequenceNr};

/// How large one append may get. One larger write goes alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendLimits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// An append to make now.
#[derive(Debug, Clone)]
pub(crate) struct Append {
    /// The highest number before it.
    pub(crate) expected: SequenceNr,
    /// The number of its last event.
    pub(crate) last: SequenceNr,
    pub(crate) writes: Arc<[AtomicWrite]>,
}

impl Append {
    /// The bytes of its events.
    pub(crate) fn size(&self) -> usize {
        self.writes.iter().map(AtomicWrite::size).sum()
    }
}

/// What an append of unknown outcome leaves to be resolved, in order.
#[derive(Debug)]
pub(crate) struct Unresolved<H> {
    /// Its first and last number.
    pub(crate) first: SequenceNr,
    pub(crate) last: SequenceNr,
    /// What waits for each number in between.
    pub(crate) held: Vec<(SequenceNr, H)>,
}

/// A failed append, split: what depended on it, and what came behind it and was never sent.
#[derive(Debug)]
pub(crate) struct Failed<H> {
    pub(crate) in_flight: Unresolved<H>,
    pub(crate) behind: Vec<H>,
}

#[derive(Debug)]
pub(crate) struct Ledger<H> {
    limits: AppendLimits,
    durable: SequenceNr,
    newest: SequenceNr,
    gathered: VecDeque<Gathered>,
    gathered_bytes: usize,
    in_flight: Option<Append>,
    held: VecDeque<(SequenceNr, H)>,
    broken: bool,
}

#[derive(Debug)]
struct Gathered {
    write: AtomicWrite,
    bytes: usize,
}

impl<H> Ledger<H> {
    /// A ledger of a claim whose highest number is `highest`.
    pub(crate) fn new(highest: SequenceNr, limits: AppendLimits) -> Self {
        Self {
            limits,
            durable: highest,
            newest: highest,
            gathered: VecDeque::new(),
            gathered_bytes: 0,
            in_flight: None,
            held: VecDeque::new(),
            broken: false,
        }
    }

    /// Bytes of events that wait for the append in flight.
    pub(crate) fn gathered_bytes(&self) -> usize {
        self.gathered_bytes
    }

    /// True if the next append has something to take.
    pub(crate) fn has_gathered(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// True if nothing waits for the journal.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.gathered.is_empty() && self.held.is_empty()
    }

    /// Enters a handled command: its write, if any, and what is held until the newest event is durable.
    ///
    /// # Errors
    /// `held`, if the ledger is broken: the command was computed on a state that is lost.
    pub(crate) fn push(&mut self, write: Option<AtomicWrite>, held: H) -> Result<(), H> {
        if self.broken {
            return Err(held);
        }
        if let Some(write) = write {
            let bytes = write.size();
            self.newest = advance(self.newest, &write);
            self.gathered_bytes += bytes;
            self.gathered.push_back(Gathered { write, bytes });
        }
        self.held.push_back((self.newest, held));
        Ok(())
    }

    /// The next held thing whose events are all durable.
    pub(crate) fn pop_ready(&mut self) -> Option<H> {
        let (needs, _) = self.held.front()?;
        if *needs > self.durable {
            return None;
        }
        self.held.pop_front().map(|(_, held)| held)
    }

    /// Starts the next append, unless one is in flight or nothing is gathered.
    pub(crate) fn next_append(&mut self) -> Option<Append> {
        if self.in_flight.is_some() {
            return None;
        }
        let (mut events, mut bytes) = (0, 0);
        let mut writes = Vec::new();
        let mut last = self.durable;
        while let Some(next) = self.gathered.front() {
            events += next.write.len();
            bytes += next.bytes;
            let too_large = events > self.limits.events || bytes > self.limits.bytes;
            if too_large && !writes.is_empty() {
                break;
            }
            let Some(Gathered { write, bytes }) = self.gathered.pop_front() else {
                break;
            };
            self.gathered_bytes -= bytes;
            last = advance(last, &write);
            writes.push(write);
        }
        if writes.is_empty() {
            return None;
        }
        let append = Append {
            expected: self.durable,
            last,
            writes: writes.into(),
        };
        self.in_flight = Some(append.clone());
        Some(append)
    }

    /// The append in flight, to be sent once more after it was certainly not stored.
    pub(crate) fn in_flight(&self) -> Option<Append> {
        self.in_flight.clone()
    }

    /// The append in flight is durable.
    pub(crate) fn stored(&mut self) {
        if let Some(append) = self.in_flight.take() {
            self.durable = append.last;
        }
    }

    /// The append in flight failed for good. Breaks the ledger and hands back everything that is not ready.
    pub(crate) fn failed(&mut self) -> Failed<H> {
        self.broken = true;
        self.gathered.clear();
        self.gathered_bytes = 0;
        let durable = self.durable;
        let last = self.in_flight.take().map_or(durable, |append| append.last);
        self.newest = durable;
        let mut not_ready = self
            .held
            .split_off(self.held.partition_point(|(needs, _)| *needs <= durable));
        let behind = not_ready.split_off(not_ready.partition_point(|(needs, _)| *needs <= last));
        Failed {
            in_flight: Unresolved {
                first: durable.next(),
                last,
                held: not_ready.into(),
            },
            behind: behind.into_iter().map(|(_, held)| held).collect(),
        }
    }

    /// The journal rejected write `index` of the append in flight; nothing of it is stored. Breaks the ledger, keeps the
    /// writes before as the append to be sent again, and hands back what depended on the rest. An index that is not in
    /// the append rejects all of it.
    pub(crate) fn rejected(&mut self, index: Option<usize>) -> (Option<Append>, Vec<H>) {
        let writes = self.in_flight.as_ref().map(|append| &append.writes[..]);
        let before = |index| writes?.get(index).and(writes?.get(..index));
        let kept: Arc<[AtomicWrite]> = index.and_then(before).unwrap_or_default().into();
        let last = kept.iter().fold(self.durable, advance);
        let Failed { in_flight, behind } = self.failed();
        let (keep, mut lost): (Vec<_>, Vec<_>) =
            in_flight.held.into_iter().partition(|(needs, _)| *needs <= last);
        self.held.extend(keep);
        if !kept.is_empty() {
            self.newest = last;
            self.in_flight = Some(Append {
                expected: self.durable,
                last,
                writes: kept,
            });
        }
        let lost = lost.drain(..).map(|(_, held)| held).chain(behind).collect();
        (self.in_flight.clone(), lost)
    }
}

fn advance(number: SequenceNr, write: &AtomicWrite) -> SequenceNr {
    // The engine refuses a command whose numbers would pass the maximum before it gets here.
    number.checked_add(write.len() as u64).unwrap_or(SequenceNr::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::{prelude::*, test_runner::FileFailurePersistence};

    use super::*;
    use crate::{CodecId, EncodedEvent, Manifest, Timestamp};

    const LIMITS: AppendLimits = AppendLimits { events: 4, bytes: 30 };

    #[derive(Debug, Clone)]
    enum Step {
        /// A command with events of these sizes; none at all is one that only reads.
        Push(Vec<usize>),
        NextAppend,
        Stored,
        Rejected(Option<usize>),
        Failed,
        Pop,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => prop::collection::vec(0..20_usize, 0..6).prop_map(Step::Push),
            6 => Just(Step::NextAppend),
            6 => Just(Step::Stored),
            1 => prop::option::of(0..6_usize).prop_map(Step::Rejected),
            1 => Just(Step::Failed),
            6 => Just(Step::Pop),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// A write whose first payload starts at its number, so that a misplaced one is seen.
    fn write(number: u64, sizes: &[usize]) -> AtomicWrite {
        let event = |(index, size): (u64, &usize)| EncodedEvent {
            payload: Bytes::from(vec![0; *size]),
            codec: CodecId::JSON,
            manifest: Manifest::default(),
            schema_version: 0,
            timestamp: Timestamp(number + index),
            tags: Vec::new(),
            metadata: Bytes::new(),
        };
        AtomicWrite::from((1..).zip(sizes).map(event).collect::<Vec<_>>())
    }

    /// The same as lists that are gone through from the start each time.
    #[derive(Default)]
    struct Reference {
        durable: u64,
        newest: u64,
        /// Writes that are not stored, of which the first `in_flight` are.
        writes: Vec<AtomicWrite>,
        in_flight: Option<usize>,
        /// Commands by number with what they need; a released or returned one is taken out.
        held: Vec<(u64, usize)>,
        broken: bool,
    }

    impl Reference {
        fn fits(&self) -> usize {
            let fits = |count: &usize| {
                let taken = &self.writes[..*count];
                let events: usize = taken.iter().map(AtomicWrite::len).sum();
                let bytes: usize = taken.iter().map(AtomicWrite::size).sum();
                events <= LIMITS.events && bytes <= LIMITS.bytes
            };
            (1..=self.writes.len()).take_while(fits).last().unwrap_or(1)
        }

        fn events(&self, writes: usize) -> u64 {
            self.writes[..writes].iter().map(|write| write.len() as u64).sum()
        }

        /// Takes out the commands that need more than `above` and at most `to`.
        fn take(&mut self, above: u64, to: u64) -> Vec<(u64, usize)> {
            let taken = |(needs, _): &(u64, usize)| *needs > above && *needs <= to;
            let all = std::mem::take(&mut self.held);
            let (taken, kept) = all.into_iter().partition(taken);
            self.held = kept;
            taken
        }
    }

    fn numbers(held: Vec<(u64, usize)>) -> Vec<usize> {
        held.into_iter().map(|(_, command)| command).collect()
    }

    fn run(first: u64, steps: Vec<Step>) {
        let mut ledger = Ledger::new(SequenceNr::new(first), LIMITS);
        let mut reference = Reference {
            durable: first,
            newest: first,
            ..Reference::default()
        };
        let check = |append: &Option<Append>, reference: &Reference| match (append, reference.in_flight) {
            (None, None) => {}
            (Some(append), Some(writes)) => {
                assert_eq!(append.expected.get(), reference.durable);
                assert_eq!(append.last.get(), reference.durable + reference.events(writes));
                assert_eq!(append.writes[..], reference.writes[..writes]);
                // Contiguous, whatever was appended, returned or rejected before.
                let events = append.writes.iter().flat_map(|write| &write.events);
                for (event, number) in events.zip(append.expected.get() + 1..) {
                    assert_eq!(event.timestamp.0, number);
                }
            }
            other => panic!("{other:?}"),
        };
        for (command, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(sizes) => {
                    let write = (!sizes.is_empty()).then(|| write(reference.newest, &sizes));
                    let pushed = ledger.push(write.clone(), command);
                    assert_eq!(pushed, if reference.broken { Err(command) } else { Ok(()) });
                    if !reference.broken {
                        reference.newest += sizes.len() as u64;
                        reference.writes.extend(write);
                        reference.held.push((reference.newest, command));
                    }
                }
                Step::NextAppend => {
                    let append = ledger.next_append();
                    if reference.in_flight.is_some() || reference.writes.is_empty() {
                        assert!(append.is_none());
                    } else {
                        reference.in_flight = Some(reference.fits());
                        check(&append, &reference);
                    }
                }
                Step::Stored => {
                    ledger.stored();
                    if let Some(writes) = reference.in_flight.take() {
                        reference.durable += reference.events(writes);
                        reference.writes.drain(..writes);
                    }
                }
                Step::Failed => {
                    let Failed { in_flight, behind } = ledger.failed();
                    let writes = reference.in_flight.take().unwrap_or(0);
                    let last = reference.durable + reference.events(writes);
                    assert_eq!(in_flight.first.get(), reference.durable + 1);
                    assert_eq!(in_flight.last.get(), last);
                    let held: Vec<_> = in_flight
                        .held
                        .into_iter()
                        .map(|(needs, held)| (needs.get(), held))
                        .collect();
                    assert_eq!(held, reference.take(reference.durable, last));
                    assert_eq!(behind, numbers(reference.take(last, u64::MAX)));
                    reference.writes.clear();
                    reference.broken = true;
                }
                Step::Rejected(index) => {
                    let (again, lost) = ledger.rejected(index);
                    let writes = reference.in_flight.take().unwrap_or(0);
                    let kept = index.filter(|index| *index < writes).unwrap_or(0);
                    let last = reference.durable + reference.events(kept);
                    reference.writes.truncate(kept);
                    reference.in_flight = (kept > 0).then_some(kept);
                    check(&again, &reference);
                    assert_eq!(lost, numbers(reference.take(last, u64::MAX)));
                    reference.broken = true;
                }
                Step::Pop => {
                    let ready = ledger.pop_ready();
                    let is_ready = reference
                        .held
                        .first()
                        .filter(|(needs, _)| *needs <= reference.durable);
                    assert_eq!(ready, is_ready.map(|(_, command)| *command));
                    if ready.is_some() {
                        reference.held.remove(0);
                    }
                }
            }
            check(&ledger.in_flight(), &reference);
            let gathered = &reference.writes[reference.in_flight.unwrap_or(0)..];
            assert_eq!(ledger.has_gathered(), !gathered.is_empty());
            assert_eq!(
                ledger.gathered_bytes(),
                gathered.iter().map(AtomicWrite::size).sum::<usize>()
            );
            assert_eq!(
                ledger.is_idle(),
                reference.writes.is_empty() && reference.held.is_empty()
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
            ..ProptestConfig::default()
        })]

        /// A failure leaves its seed beside this file, and `cargo test -p journal-core --lib ledger` repeats it first;
        /// `PROPTEST_CASES=100000` in front of that looks further.
        #[test]
        fn a_ledger_keeps_order_and_numbers_and_loses_or_repeats_nothing(first in 0..1_000_u64, steps in steps()) {
            run(first, steps);
        }
    }
}
