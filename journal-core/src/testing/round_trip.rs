//! That events and states are the same after their codec as before.

use crate::{EventSourced, Options, PersistenceId, Record, deliveries::Deliveries, recover::Serializers};

type Same<T> = fn(&T, &T) -> bool;

/// How values are compared.
pub(crate) struct RoundTrip<A: EventSourced> {
    pub(crate) events: Option<Same<A::Event>>,
    pub(crate) states: Option<Same<A::State>>,
}

impl<A: EventSourced> RoundTrip<A> {
    /// # Panics
    /// If the event that was stored as `record` does not come back.
    #[track_caller]
    pub(crate) fn check_event(
        &self,
        serializers: &Serializers<A>,
        options: &Options<A>,
        id: &PersistenceId,
        event: &A::Event,
        record: &Record,
    ) {
        let (manifest, codec) = (&record.event.manifest, &options.event_codec);
        let hint = "no recovery would get it right. Look for `#[serde(skip)]`, `untagged`, `flatten` or a `Serialize` and a \
                    `Deserialize` that do not fit each other, or choose another `event_codec`";
        let decoded = serializers.events.decode(id, record).unwrap_or_else(|error| {
            panic!("an event {manifest:?} cannot be read back from {codec:?}; {hint}: {error}")
        });
        let again = serializers
            .events
            .encode(&decoded, record.event.timestamp)
            .unwrap_or_else(|error| {
                panic!("an event {manifest:?} that was read back cannot be written again; {hint}: {error}")
            });
        let same = self.events.is_none_or(|same| same(event, &decoded));
        assert!(
            same && same_encoding(&again.payload, &record.event.payload),
            "an event {manifest:?} comes back from {codec:?} as another one; {hint}"
        );
    }

    /// # Panics
    /// If the state does not survive a snapshot.
    #[track_caller]
    pub(crate) fn check_state(&self, serializers: &Serializers<A>, options: &Options<A>, state: &A::State) {
        let codec = &options.state_codec;
        let hint = "snapshots of it are of no use. Look for `#[serde(skip)]`, `untagged`, `flatten` or a `Serialize` and a \
                    `Deserialize` that do not fit each other, or choose another `state_codec`";
        let snapshot = serializers
            .states
            .encode(state, &Deliveries::default())
            .unwrap_or_else(|error| panic!("the state cannot be written by {codec:?}; {hint}: {error}"));
        let (decoded, _) = serializers
            .states
            .decode(&snapshot)
            .unwrap_or_else(|error| panic!("the state cannot be read back from {codec:?}; {hint}: {error}"));
        assert!(
            self.same_state(serializers, state, &decoded),
            "the state comes back from {codec:?} as another one; {hint}"
        );
    }

    /// Whether the states are the same.
    #[track_caller]
    pub(crate) fn same_state(&self, serializers: &Serializers<A>, one: &A::State, other: &A::State) -> bool {
        let encoded = |state| {
            serializers
                .states
                .encode_state(state)
                .unwrap_or_else(|error| panic!("the state cannot be written: {error}"))
        };
        self.states.is_none_or(|same| same(one, other)) && same_encoding(&encoded(one), &encoded(other))
    }
}

/// Equal up to the order of bytes: a `HashMap` that was read back is written in another order.
fn same_encoding(one: &[u8], other: &[u8]) -> bool {
    let sorted = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.sort_unstable();
        bytes
    };
    one == other || sorted(one) == sorted(other)
}
