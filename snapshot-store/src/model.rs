//! Both stores against a plain list. proptest prints a failing case and keeps it in `proptest-regressions/`.

use bytes::Bytes;
use journal_core::{Incarnation, PersistenceId, SequenceNr, Timestamp};
use proptest::prelude::*;
use tokio::runtime;

use crate::{
    FileSnapshotStore, MemorySnapshotStore, SelectionCriteria, Snapshot, SnapshotMetadata, SnapshotStore,
    exactly, file::simulated::SimulatedDisk, newest_first,
};

/// Few ids, numbers, lives and times, so that operations meet; ids that careless names would confuse.
const IDS: [&str; 6] = ["a", "A", "a/../a", "a\0", "ä", "a-0"];

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Save(Snapshot),
    Delete(SnapshotMetadata),
    DeleteMatching(PersistenceId, SelectionCriteria),
    KeepNewest(PersistenceId, Incarnation, usize),
    Load(PersistenceId, SelectionCriteria),
}

/// The snapshots that there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model(pub(crate) Vec<Snapshot>);

impl Model {
    pub(crate) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Save(snapshot) => {
                self.remove(&snapshot.metadata.persistence_id, exactly(&snapshot.metadata));
                self.0.push(snapshot.clone());
            }
            Operation::Delete(metadata) => self.remove(&metadata.persistence_id, exactly(metadata)),
            Operation::DeleteMatching(id, criteria) => self.remove(id, *criteria),
            Operation::KeepNewest(id, incarnation, count) => {
                let life = SelectionCriteria::ALL.of(*incarnation);
                for older in self.matching(id, life).into_iter().skip(*count) {
                    self.remove(id, exactly(&older.metadata));
                }
            }
            Operation::Load(..) => {}
        }
    }

    fn remove(&mut self, id: &PersistenceId, criteria: SelectionCriteria) {
        self.0.retain(|snapshot| {
            snapshot.metadata.persistence_id != *id || !criteria.matches(&snapshot.metadata)
        });
    }

    pub(crate) fn matching(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Vec<Snapshot> {
        let of_id = self
            .0
            .iter()
            .filter(|snapshot| snapshot.metadata.persistence_id == *id);
        let mut matching: Vec<_> = of_id
            .filter(|snapshot| criteria.matches(&snapshot.metadata))
            .cloned()
            .collect();
        matching.sort_by_key(|snapshot| newest_first(&snapshot.metadata));
        matching
    }
}

pub(crate) async fn perform(
    store: &dyn SnapshotStore,
    operation: &Operation,
) -> Result<(), crate::SnapshotError> {
    match operation {
        Operation::Save(snapshot) => store.save(snapshot.clone()).await,
        Operation::Delete(metadata) => store.delete(metadata).await,
        Operation::DeleteMatching(id, criteria) => store.delete_matching(id, *criteria).await,
        Operation::KeepNewest(id, incarnation, count) => store.keep_newest(id, *incarnation, *count).await,
        Operation::Load(id, criteria) => store.load(id, *criteria).await.map(drop),
    }
}

pub(crate) fn ids() -> impl Iterator<Item = PersistenceId> {
    IDS.into_iter().map(|id| PersistenceId::new(id).unwrap())
}

fn id() -> impl Strategy<Value = PersistenceId> {
    proptest::sample::select(ids().collect::<Vec<_>>())
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    (0_u8..2).prop_map(|life| Incarnation::from_bytes([life; 16]))
}

fn metadata() -> impl Strategy<Value = SnapshotMetadata> {
    (id(), 0_u64..5, incarnation(), 0_u64..4).prop_map(|(persistence_id, number, incarnation, time)| {
        SnapshotMetadata {
            persistence_id,
            sequence_nr: SequenceNr::new(number),
            incarnation,
            timestamp: Timestamp(time),
        }
    })
}

fn criteria() -> impl Strategy<Value = SelectionCriteria> {
    let range = |end| proptest::option::of((0..end, 0..end));
    (range(6_u64), range(5_u64), proptest::option::of(incarnation())).prop_map(
        |(numbers, times, incarnation)| {
            let all = SelectionCriteria::ALL;
            let numbers = numbers.map(|(min, max)| (SequenceNr::new(min), SequenceNr::new(max)));
            let times = times.map(|(min, max)| (Timestamp(min), Timestamp(max)));
            let (min_sequence_nr, max_sequence_nr) =
                numbers.unwrap_or((all.min_sequence_nr, all.max_sequence_nr));
            let (min_timestamp, max_timestamp) = times.unwrap_or((all.min_timestamp, all.max_timestamp));
            SelectionCriteria {
                min_sequence_nr,
                max_sequence_nr,
                min_timestamp,
                max_timestamp,
                incarnation,
            }
        },
    )
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let payload = proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    prop_oneof![
        6 => (metadata(), payload).prop_map(|(metadata, payload)| Operation::Save(Snapshot { metadata, payload })),
        2 => metadata().prop_map(Operation::Delete),
        1 => (id(), criteria()).prop_map(|(id, criteria)| Operation::DeleteMatching(id, criteria)),
        1 => (id(), incarnation(), 0_usize..3)
            .prop_map(|(id, life, count)| Operation::KeepNewest(id, life, count)),
        3 => (id(), criteria()).prop_map(|(id, criteria)| Operation::Load(id, criteria)),
    ]
}

/// Performs the operations on both, and compares what the store tells after each of them.
async fn behaves_like_the_model(store: &dyn SnapshotStore, operations: &[Operation]) {
    let mut model = Model::default();
    for operation in operations {
        perform(store, operation).await.unwrap();
        model.apply(operation);
        let asked = match operation {
            Operation::Load(id, criteria) => vec![(id.clone(), *criteria)],
            _ => ids().map(|id| (id, SelectionCriteria::ALL)).collect(),
        };
        for (id, criteria) in asked {
            let expected = model.matching(&id, criteria);
            let loaded = store.load(&id, criteria).await.unwrap();
            assert_eq!(loaded.snapshot.as_ref(), expected.first());
            assert_eq!(loaded.skipped, []);
            let listed = store.list(&id, criteria).await.unwrap();
            let expected: Vec<_> = expected.into_iter().map(|snapshot| snapshot.metadata).collect();
            assert_eq!(listed, expected);
        }
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #[test]
    fn the_memory_store_behaves_like_a_list(operations in proptest::collection::vec(operation(), 0..60)) {
        block_on(behaves_like_the_model(&MemorySnapshotStore::new(), &operations));
    }

    #[test]
    fn the_file_store_behaves_like_a_list_even_if_all_ids_have_the_same_hash(
        operations in proptest::collection::vec(operation(), 0..60),
        same_hash: bool,
    ) {
        let store = FileSnapshotStore::simulated(&SimulatedDisk::new(), same_hash);
        block_on(behaves_like_the_model(&store, &operations));
    }
}

proptest! {
    // Each save waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn the_file_store_behaves_like_a_list_on_a_real_disk(
        operations in proptest::collection::vec(operation(), 0..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let store = FileSnapshotStore::open(dir.path()).await.unwrap();
            behaves_like_the_model(&store, &operations).await;
        });
    }
}
