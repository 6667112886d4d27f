//! Any journal against plain lists: random steps of several writers over a few ids, each answer compared with the one
//! that the lists give.
//!
//! It knows a journal only through its contract, so it fits every backend that declares `Fencing::Claims` and
//! `GapPolicy::Refuse`. Steps run one after another; that their writers and readers take turns in any order is what
//! makes them concurrent.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::FutureExt;
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Claim, CodecId, Deletion, EncodedEvent, Epoch, ErrorKind,
    EventStream, Incarnation, Journal, JournalError, Manifest, Outcome, PersistenceId, Record, ReplayRange,
    SequenceNr, Tag, Timestamp, WriterId,
};
use proptest::{collection::vec, prelude::*, test_runner::TestCaseError};

const WRITERS: usize = 3;
/// Prefixes of each other, with what separators and terminators could be.
const IDS: [&str; 4] = ["a", "a\0", "a\0b", "a|ü"];
const READERS: usize = 2;

type Checked<T = ()> = Result<T, TestCaseError>;

/// An append as a writer asks for it.
#[derive(Debug, Clone)]
pub struct Attempt {
    writer: usize,
    id: usize,
    /// Added to the number the claim is at.
    off_by: u64,
    writes: Vec<Vec<Content>>,
}

/// The content of an event.
#[derive(Debug, Clone, Copy)]
pub enum Content {
    /// So many bytes, tags and metadata that depend on the number as well.
    Bytes(u8),
    /// One byte more than the journal takes.
    Oversized,
}

/// Which life a deletion names.
#[derive(Debug, Clone, Copy)]
pub enum Life {
    Current,
    Former,
    Unheard,
}

/// What happens next.
#[derive(Debug, Clone)]
pub enum Step {
    Claim {
        writer: usize,
        id: usize,
    },
    Append(Attempt),
    AppendGroup(Vec<Attempt>),
    Bounds {
        id: usize,
    },
    Replay {
        id: usize,
        range: ReplayRange,
    },
    OpenReplay {
        reader: usize,
        id: usize,
        range: ReplayRange,
    },
    ReadChunk {
        reader: usize,
    },
    DeleteTo {
        id: usize,
        to: u64,
        life: Life,
        fresh_start: bool,
    },
    Purge {
        id: usize,
    },
    Reopen,
}

/// Up to `length` steps.
pub fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let (id, writer, reader) = (0..IDS.len(), 0..WRITERS, 0..READERS);
    let step = prop_oneof![
        6 => (writer, id.clone()).prop_map(|(writer, id)| Step::Claim { writer, id }),
        12 => attempt().prop_map(Step::Append),
        6 => vec(attempt(), 0..4).prop_map(Step::AppendGroup),
        1 => id.clone().prop_map(|id| Step::Bounds { id }),
        3 => (id.clone(), range()).prop_map(|(id, range)| Step::Replay { id, range }),
        3 => (reader.clone(), id.clone(), range())
            .prop_map(|(reader, id, range)| Step::OpenReplay { reader, id, range }),
        4 => reader.prop_map(|reader| Step::ReadChunk { reader }),
        4 => (id.clone(), number(), life(), any::<bool>())
            .prop_map(|(id, to, life, fresh_start)| Step::DeleteTo { id, to, life, fresh_start }),
        1 => id.prop_map(|id| Step::Purge { id }),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..length)
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let content = prop_oneof![40 => any::<u8>().prop_map(Content::Bytes), 1 => Just(Content::Oversized)];
    let write = prop_oneof![
        1 => Just(Vec::new()),
        30 => vec(content, 1..4),
        // More than a chunk of a replay.
        2 => (200..400_usize).prop_map(|count| vec![Content::Bytes(1); count]),
    ];
    let writes = prop_oneof![1 => Just(Vec::new()), 20 => vec(write, 1..4)];
    let off_by = prop_oneof![15 => Just(0), 1 => 1..3_u64];
    (0..WRITERS, 0..IDS.len(), off_by, writes).prop_map(|(writer, id, off_by, writes)| Attempt {
        writer,
        id,
        off_by,
        writes,
    })
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..12_u64, 2 => 0..600_u64, 1 => Just(u64::MAX)]
}

fn range() -> impl Strategy<Value = ReplayRange> {
    let max = prop_oneof![2 => Just(u64::MAX), 1 => 0..5_u64, 1 => 0..400_u64];
    let bounded = (number(), number(), max).prop_map(|(from, to, max)| ReplayRange {
        from: SequenceNr::new(from),
        to: SequenceNr::new(to),
        max,
    });
    prop_oneof![1 => Just(ReplayRange::ALL), 2 => bounded]
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![8 => Just(Life::Current), 1 => Just(Life::Former), 1 => Just(Life::Unheard)]
}

/// Runs `steps` on the journal that `open` opens, also again after each [`Step::Reopen`].
///
/// # Errors
/// The first answer that differs from the model's.
pub async fn run<J: Journal>(open: impl AsyncFn() -> J, steps: Vec<Step>) -> Checked {
    let mut run = Run {
        journal: Arc::new(open().await),
        writers: std::array::from_fn(|_| WriterId::random()),
        ids: IDS.map(|name| Modelled::new(PersistenceId::new(name).expect("a valid id"))),
        claims: HashMap::new(),
        readers: BTreeMap::new(),
        incarnations: HashSet::new(),
        orders: HashMap::new(),
        step: 0,
    };
    for step in steps {
        run.step += 1;
        if let Step::Reopen = step {
            run.close().await?;
            run.journal = Arc::new(open().await);
            run.check_everything().await?;
        } else {
            run.step(step).await?;
        }
    }
    run.check_everything().await
}

struct Run {
    journal: Arc<dyn Journal>,
    writers: [WriterId; WRITERS],
    ids: [Modelled; IDS.len()],
    claims: HashMap<(usize, usize), Held>,
    readers: BTreeMap<usize, Reader>,
    /// Of all lives so far.
    incarnations: HashSet<Incarnation>,
    /// The atomic write (step, id, first number) of each commit order seen.
    orders: HashMap<u64, (u64, usize, u64)>,
    step: u64,
}

/// One id as the model sees it.
struct Modelled {
    id: PersistenceId,
    /// The epoch of the only claim that may append.
    claimed: Option<Epoch>,
    /// Of any claim in any life.
    newest: Option<Epoch>,
    current: Option<Stored>,
    former: Vec<Incarnation>,
}

struct Stored {
    incarnation: Incarnation,
    /// All events of this life, deleted ones too.
    events: Vec<Expected>,
    deleted_to: usize,
    fresh_start: usize,
}

#[derive(Debug, Clone)]
struct Expected {
    event: EncodedEvent,
    writer: WriterId,
    epoch: Epoch,
    write: (u64, usize, u64),
}

struct Held {
    claim: Claim,
    spent: bool,
    highest: u64,
}

/// A replay that other steps come in between.
struct Reader {
    id: usize,
    events: EventStream,
    incarnation: Incarnation,
    /// All events that the life had when the reader last looked: they outlive a purge here.
    history: Vec<Expected>,
    next: u64,
    /// A replay that ends without an error has delivered these, or there were none.
    owed_to: u64,
    /// The most that the range allows.
    allowed_to: u64,
}

fn nr(number: usize) -> SequenceNr {
    SequenceNr::new(number as u64)
}

impl Modelled {
    fn new(id: PersistenceId) -> Self {
        Self {
            id,
            claimed: None,
            newest: None,
            current: None,
            former: Vec::new(),
        }
    }

    fn bounds(&self) -> Bounds {
        self.current.as_ref().map_or_else(Bounds::default, |life| Bounds {
            highest: nr(life.events.len()),
            deleted_to: nr(life.deleted_to),
            fresh_start: nr(life.fresh_start),
            incarnation: Some(life.incarnation),
        })
    }

    /// The numbers and events of a range, by walking the list.
    fn select(&self, range: ReplayRange) -> Vec<(u64, &Expected)> {
        let Some(life) = &self.current else {
            return Vec::new();
        };
        let wanted = range.from.get()..=range.to.get();
        (1..)
            .zip(&life.events)
            .skip(life.deleted_to)
            .filter(|(number, _)| wanted.contains(number))
            .take(usize::try_from(range.max).unwrap_or(usize::MAX))
            .collect()
    }
}

fn check_error(error: &JournalError, kinds: &[ErrorKind]) -> Checked {
    prop_assert!(kinds.contains(&error.kind()), "{error:?} is none of {kinds:?}");
    prop_assert_eq!(error.outcome(), Outcome::NotStored);
    Ok(())
}

fn check_record(record: &Record, number: u64, expected: &Expected) -> Checked {
    prop_assert_eq!(record.sequence_nr.get(), number);
    prop_assert_eq!(record.writer, expected.writer);
    prop_assert_eq!(record.epoch, expected.epoch);
    prop_assert_eq!(&record.event, &expected.event);
    Ok(())
}

fn fails(error: JournalError) -> TestCaseError {
    TestCaseError::fail(format!("{error:?}"))
}

impl Run {
    async fn step(&mut self, step: Step) -> Checked {
        match step {
            Step::Claim { writer, id } => self.claim(writer, id).await?,
            Step::Append(attempt) => self.append(attempt).await?,
            Step::AppendGroup(attempts) => self.append_group(attempts).await?,
            Step::Bounds { id } => self.check_bounds(id).await?,
            Step::Replay { id, range } => self.replay(id, range).await?,
            Step::OpenReplay { reader, id, range } => self.open_replay(reader, id, range).await?,
            Step::ReadChunk { reader } => {
                self.read_chunk(reader).await?;
            }
            Step::DeleteTo {
                id,
                to,
                life,
                fresh_start,
            } => self.delete_to(id, to, life, fresh_start).await?,
            Step::Purge { id } => {
                self.journal.purge(&self.ids[id].id).await.map_err(fails)?;
                let modelled = &mut self.ids[id];
                modelled.claimed = None;
                modelled
                    .former
                    .extend(modelled.current.take().map(|life| life.incarnation));
                self.check_everything_of(id).await?;
            }
            Step::Reopen => unreachable!("the caller opens"),
        }
        Ok(())
    }

    async fn close(&mut self) -> Checked {
        self.readers.clear();
        self.claims.clear();
        for modelled in &mut self.ids {
            modelled.claimed = None;
        }
        self.journal.shutdown().await.map_err(fails)?;
        let refused = self.journal.bounds(&self.ids[0].id).await;
        prop_assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Closed));
        Ok(())
    }

    async fn claim(&mut self, writer: usize, id: usize) -> Checked {
        let modelled = &mut self.ids[id];
        let claim = self
            .journal
            .claim(&modelled.id, self.writers[writer])
            .await
            .map_err(fails)?;
        prop_assert!(!claim.is_spent());
        prop_assert_eq!(claim.writer(), self.writers[writer]);
        prop_assert_eq!(claim.id(), &modelled.id);
        prop_assert!(
            modelled.newest.is_none_or(|newest| newest < claim.epoch()),
            "an epoch that is not newer"
        );
        let bounds = Bounds {
            incarnation: Some(claim.incarnation()),
            ..modelled.bounds()
        };
        prop_assert_eq!(claim.bounds(), &bounds);
        match &modelled.current {
            Some(life) => prop_assert_eq!(claim.incarnation(), life.incarnation),
            None => prop_assert!(
                !self.incarnations.contains(&claim.incarnation()),
                "an incarnation used before"
            ),
        }
        modelled.claimed = Some(claim.epoch());
        modelled.newest = Some(claim.epoch());
        let highest = claim.highest().get();
        self.claims.insert(
            (writer, id),
            Held {
                claim,
                spent: false,
                highest,
            },
        );
        self.check_bounds(id).await
    }

    fn writes(&self, writes: &[Vec<Content>]) -> Arc<[AtomicWrite]> {
        let capabilities = self.journal.capabilities();
        let event = |content: &Content| {
            let manifest = Manifest::from_static("event");
            let mut event = EncodedEvent {
                payload: Bytes::new(),
                codec: CodecId::JSON,
                manifest,
                schema_version: 0,
                timestamp: Timestamp(self.step),
                tags: Vec::new(),
                metadata: Bytes::new(),
            };
            match *content {
                Content::Bytes(length) => {
                    event.payload = vec![length; usize::from(length % 8)].into();
                    event.schema_version = u32::from(length);
                    event.metadata = vec![length; usize::from(length % 3)].into();
                    if capabilities.tags {
                        event.tags = vec![Tag::from_static("t"); usize::from(length % 4)];
                    }
                }
                Content::Oversized => {
                    event.payload = vec![0; capabilities.largest_event + 1 - event.size()].into();
                }
            }
            event
        };
        writes
            .iter()
            .map(|events| events.iter().map(event).collect::<Vec<_>>().into())
            .collect()
    }

    /// What the contract says of this append before the store is asked; `None` if the store decides.
    fn refusal(
        &self,
        attempt: &Attempt,
        held: &Held,
        writes: &[AtomicWrite],
    ) -> Option<(ErrorKind, Option<usize>)> {
        let capabilities = self.journal.capabilities();
        if held.spent {
            return Some((ErrorKind::Spent, None));
        }
        if writes.is_empty() {
            return Some((ErrorKind::Rejected, None));
        }
        let mut size = 0;
        for (index, write) in writes.iter().enumerate() {
            size += write.size();
            let oversized = write
                .events
                .iter()
                .any(|event| event.size() > capabilities.largest_event);
            if write.is_empty() || oversized || size > capabilities.largest_append {
                return Some((ErrorKind::Rejected, Some(index)));
            }
        }
        (attempt.off_by != 0).then_some((ErrorKind::Conflict, None))
    }

    /// The writer's claim; it makes its first one when it needs it, and claims again only as a step of its own.
    async fn take_claim(&mut self, attempt: &Attempt) -> Checked<Held> {
        let key = (attempt.writer, attempt.id);
        if !self.claims.contains_key(&key) {
            self.claim(attempt.writer, attempt.id).await?;
        }
        self.claims
            .remove(&key)
            .ok_or_else(|| TestCaseError::fail("just claimed"))
    }

    async fn append(&mut self, attempt: Attempt) -> Checked {
        let writes = self.writes(&attempt.writes);
        let mut held = self.take_claim(&attempt).await?;
        let expected = SequenceNr::new(held.highest + attempt.off_by);
        let result = self
            .journal
            .append(&mut held.claim, expected, writes.clone())
            .await;
        self.settle(&attempt, held, &writes, result)?;
        self.check_everything_of(attempt.id).await
    }

    async fn append_group(&mut self, attempts: Vec<Attempt>) -> Checked {
        let mut asked = Vec::new();
        let mut parts = Vec::new();
        for attempt in attempts {
            if asked
                .iter()
                .any(|(other, ..): &(Attempt, _, _)| other.id == attempt.id)
            {
                continue;
            }
            let held = self.take_claim(&attempt).await?;
            let writes = self.writes(&attempt.writes);
            parts.push(AppendPart {
                claim: held.claim,
                expected: SequenceNr::new(held.highest + attempt.off_by),
                writes,
                result: None,
            });
            asked.push((attempt, held.spent, held.highest));
        }
        self.journal.append_group(&mut parts).await;
        for ((attempt, spent, highest), part) in asked.into_iter().zip(parts) {
            let Some(result) = part.result else {
                return Err(TestCaseError::fail("append_group left a part without a result"));
            };
            let held = Held {
                claim: part.claim,
                spent,
                highest,
            };
            self.settle(&attempt, held, &part.writes, result)?;
            self.check_everything_of(attempt.id).await?;
        }
        Ok(())
    }

    /// Checks the result of an append, and repeats the append on the lists.
    fn settle(
        &mut self,
        attempt: &Attempt,
        mut held: Held,
        writes: &[AtomicWrite],
        result: Result<Appended, JournalError>,
    ) -> Checked {
        let refusal = self.refusal(attempt, &held, writes);
        let modelled = &mut self.ids[attempt.id];
        if let Some((kind, index)) = refusal {
            let Err(error) = result else {
                return Err(TestCaseError::fail(format!("stored, though it must be {kind:?}")));
            };
            check_error(&error, &[kind])?;
            prop_assert_eq!(error.write_index(), index);
        } else if modelled.claimed != Some(held.claim.epoch()) {
            let Err(error) = result else {
                return Err(TestCaseError::fail("stored under an ended claim"));
            };
            // Of either outcome; what follows shows that nothing was stored.
            prop_assert_eq!(error.kind(), ErrorKind::Fenced);
            held.spent = true;
        } else {
            let first = held.highest + 1;
            held.highest += writes.iter().map(|write| write.len() as u64).sum::<u64>();
            let appended = Appended {
                first: SequenceNr::new(first),
                last: SequenceNr::new(held.highest),
            };
            prop_assert_eq!(result.map_err(fails)?, appended);
            let incarnation = held.claim.incarnation();
            let life = modelled.current.get_or_insert_with(|| Stored {
                incarnation,
                events: Vec::new(),
                deleted_to: 0,
                fresh_start: 0,
            });
            self.incarnations.insert(incarnation);
            for write in writes {
                let key = (self.step, attempt.id, life.events.len() as u64 + 1);
                life.events.extend(write.events.iter().map(|event| Expected {
                    event: event.clone(),
                    writer: held.claim.writer(),
                    epoch: held.claim.epoch(),
                    write: key,
                }));
            }
        }
        prop_assert_eq!(held.claim.is_spent(), held.spent);
        prop_assert_eq!(held.claim.highest().get(), held.highest);
        self.claims.insert((attempt.writer, attempt.id), held);
        Ok(())
    }

    async fn delete_to(&mut self, id: usize, to: u64, life: Life, fresh_start: bool) -> Checked {
        let modelled = &mut self.ids[id];
        let current = modelled.current.as_ref().map(|life| life.incarnation);
        let incarnation = match life {
            Life::Current => current,
            Life::Former => modelled.former.last().copied(),
            Life::Unheard => None,
        }
        .unwrap_or_else(Incarnation::random);
        let highest = modelled.bounds().highest.get();
        let deletion = Deletion {
            to: SequenceNr::new(to),
            incarnation,
            // Of a number that is not there, nobody can say what the state is.
            fresh_start: fresh_start && to <= highest,
        };
        let result = self.journal.delete_to(&modelled.id, deletion).await;
        match &mut modelled.current {
            None => prop_assert_eq!(result.map_err(fails)?, SequenceNr::ZERO),
            Some(life) if life.incarnation != incarnation => {
                let Err(error) = result else {
                    return Err(TestCaseError::fail("deleted in another life"));
                };
                check_error(&error, &[ErrorKind::WrongIncarnation])?;
            }
            Some(life) => {
                let to = usize::try_from(to.min(highest)).expect("as long as a list");
                life.deleted_to = life.deleted_to.max(to);
                if deletion.fresh_start {
                    life.fresh_start = life.fresh_start.max(to);
                }
                prop_assert_eq!(result.map_err(fails)?, nr(life.deleted_to));
            }
        }
        self.check_everything_of(id).await
    }

    async fn check_bounds(&self, id: usize) -> Checked {
        let modelled = &self.ids[id];
        prop_assert_eq!(
            self.journal.bounds(&modelled.id).await.map_err(fails)?,
            modelled.bounds()
        );
        Ok(())
    }

    async fn replay(&mut self, id: usize, range: ReplayRange) -> Checked {
        let modelled = &self.ids[id];
        let expected = modelled.select(range);
        let mut events = self.journal.replay(&modelled.id, range);
        let mut records = Vec::new();
        while let Some(chunk) = events.next_chunk().await {
            records.extend(chunk.map_err(fails)?);
        }
        prop_assert_eq!(records.len(), expected.len());
        for (record, (number, expected)) in records.iter().zip(expected) {
            check_record(record, number, expected)?;
            if let Some(order) = record.commit_order {
                let write = *self.orders.entry(order).or_insert(expected.write);
                prop_assert_eq!(
                    write,
                    expected.write,
                    "two writes share a place in the commit order"
                );
            }
        }
        Ok(())
    }

    async fn check_everything_of(&mut self, id: usize) -> Checked {
        self.check_bounds(id).await?;
        self.replay(id, ReplayRange::ALL).await
    }

    async fn check_everything(&mut self) -> Checked {
        for id in 0..self.ids.len() {
            self.check_everything_of(id).await?;
        }
        for reader in 0..READERS {
            while self.read_chunk(reader).await? {}
        }
        let mut orders: Vec<_> = self.orders.iter().collect();
        orders.sort_unstable();
        let mut last_step = 0;
        let mut last_of_id = [0; IDS.len()];
        for (order, (step, id, first)) in orders {
            prop_assert!(last_step <= *step, "{order} is the place of an earlier write");
            // Numbers begin again after a purge, but never within one step.
            prop_assert!(
                last_step < *step || last_of_id[*id] < *first,
                "{order} is the place of an earlier write of the same append"
            );
            if last_step < *step {
                last_of_id = [0; IDS.len()];
            }
            last_step = *step;
            last_of_id[*id] = *first;
        }
        Ok(())
    }

    async fn open_replay(&mut self, reader: usize, id: usize, range: ReplayRange) -> Checked {
        let modelled = &self.ids[id];
        let numbers: Vec<u64> = modelled.select(range).iter().map(|(number, _)| *number).collect();
        let (Some(life), Some(first), Some(last)) = (&modelled.current, numbers.first(), numbers.last())
        else {
            return Ok(());
        };
        let allowed = first.saturating_add(range.max - 1).min(range.to.get());
        self.readers.insert(
            reader,
            Reader {
                id,
                events: self.journal.replay(&modelled.id, range),
                incarnation: life.incarnation,
                history: Vec::new(),
                next: *first,
                owed_to: *last,
                allowed_to: allowed,
            },
        );
        // A replay may find out where it starts when it is first asked, so it is asked before anything else happens.
        self.read_chunk(reader).await?;
        Ok(())
    }

    /// False if there is nothing more to read.
    async fn read_chunk(&mut self, index: usize) -> Checked<bool> {
        let Some(mut reader) = self.readers.remove(&index) else {
            return Ok(false);
        };
        let current = self.ids[reader.id].current.as_ref();
        let life = current.filter(|life| life.incarnation == reader.incarnation);
        if let Some(life) = life {
            let known = reader.history.len();
            reader.history.extend_from_slice(&life.events[known..]);
        }
        let overtaken = life.is_none_or(|life| life.deleted_to as u64 >= reader.next);
        match reader.events.next_chunk().await {
            None => {
                prop_assert!(
                    reader.next > reader.owed_to,
                    "ended silently before {}",
                    reader.next
                );
                return Ok(false);
            }
            Some(Err(error)) => {
                prop_assert!(overtaken, "{error:?}");
                check_error(&error, &[ErrorKind::Unavailable, ErrorKind::WrongIncarnation])?;
                prop_assert!(
                    reader
                        .events
                        .next_chunk()
                        .now_or_never()
                        .is_some_and(|end| end.is_none())
                );
                return Ok(false);
            }
            Some(Ok(records)) => {
                prop_assert!(!records.is_empty(), "an empty chunk");
                for record in records {
                    prop_assert!(reader.next <= reader.allowed_to, "more than asked for");
                    // Also of a replay that reads on in what was deleted meanwhile: it must be what was there.
                    let expected = usize::try_from(reader.next - 1)
                        .ok()
                        .and_then(|index| reader.history.get(index))
                        .ok_or_else(|| {
                            TestCaseError::fail(format!("number {} never existed", reader.next))
                        })?;
                    check_record(&record, reader.next, expected)?;
                    reader.next += 1;
                }
            }
        }
        self.readers.insert(index, reader);
        Ok(true)
    }
}
