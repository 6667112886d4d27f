//! How a type changes while its events stay: what each codec makes of old payloads, through `EventSerializer`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use journal_core::{
    CodecId, EncodedEvent, Epoch, ErrorKind, Event, EventSerializer, JournalError, Json, Manifest,
    MessagePack, PersistenceId, Record, SequenceNr, SharedCodec, Tag, Timestamp, Upcasters, WriterId,
};
use serde::{Deserialize, Serialize};

/// Declares an event type of the manifest "changed", as one of the programs in a type's history would.
macro_rules! event {
    ($version:literal, $($declaration:tt)*) => {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        $($declaration)*
        event!(@name $version, $($declaration)*);
    };
    (@name $version:literal, struct $name:ident $($rest:tt)*) => { event!(@event $version, $name); };
    (@name $version:literal, enum $name:ident $($rest:tt)*) => { event!(@event $version, $name); };
    (@event $version:literal, $name:ident) => {
        impl Event for $name {
            const MANIFEST: &'static str = "changed";
            const VERSION: u32 = $version;
        }
    };
}

event!(
    1,
    struct Old {
        count: u64,
        name: String,
        sum: i64,
    }
);
event!(
    1,
    struct FieldRemoved {
        count: u64,
        sum: i64,
    }
);
event!(
    1,
    struct FieldAdded {
        count: u64,
        name: String,
        sum: i64,
        added: bool,
    }
);
event!(
    1,
    struct FieldsReordered {
        sum: i64,
        name: String,
        count: u64,
    }
);
event!(
    2,
    struct FieldRemovedInVersion2 {
        count: u64,
        sum: i64,
    }
);
event!(
    0,
    struct Undeclared {
        count: u64,
    }
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct FieldAddedWithDefault {
    count: u64,
    name: String,
    sum: i64,
    #[serde(default)]
    added: bool,
}

impl Event for FieldAddedWithDefault {
    const MANIFEST: &'static str = "changed";
    const VERSION: u32 = 1;
}

event!(
    1,
    enum OldChoice {
        Deposited { cents: u64 },
        Withdrawn { cents: u64 },
    }
);
event!(
    1,
    enum VariantInserted {
        Opened { cents: u64 },
        Deposited { cents: u64 },
        Withdrawn { cents: u64 },
    }
);
event!(
    2,
    enum VariantInsertedInVersion2 {
        Opened { cents: u64 },
        Deposited { cents: u64 },
        Withdrawn { cents: u64 },
    }
);

/// Of version 3, which still reads version 1 and what another program called "ancient".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Upcasting {
    total: i64,
}

impl Event for Upcasting {
    const MANIFEST: &'static str = "changed";
    const VERSION: u32 = 3;
    fn tags(&self) -> Vec<Tag> {
        vec![Tag::from_static("upcasting")]
    }
    fn upcasters() -> Upcasters<Self> {
        Upcasters::new()
            .register("changed", 1, |old: Old| Self {
                total: old.sum + 1_000,
            })
            .register("ancient", 7, |total: i64| Self { total })
    }
}

fn id() -> PersistenceId {
    PersistenceId::new("account|42").unwrap()
}

fn record(event: EncodedEvent) -> Record {
    Record {
        sequence_nr: SequenceNr::new(5),
        writer: WriterId::from_bytes([0; 16]),
        epoch: Epoch::from_u64(1),
        commit_order: None,
        event,
    }
}

fn encode<E: Event>(codec: SharedCodec<E>, event: &E) -> Record {
    let serializer = EventSerializer::new(codec).unwrap();
    record(serializer.encode(event, Timestamp(9)).unwrap())
}

fn decode<E: Event>(codec: SharedCodec<E>, record: &Record) -> Result<E, JournalError> {
    EventSerializer::new(codec).unwrap().decode(&id(), record)
}

/// The text of an error that must name what cannot be decoded, and why.
fn undecodable<E: std::fmt::Debug>(result: Result<E, JournalError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecodable);
    assert_eq!(error.persistence_id(), Some(&id()));
    assert_eq!(error.sequence_nr(), Some(SequenceNr::new(5)));
    assert!(std::error::Error::source(&error).is_some());
    let text = error.to_string();
    assert!(text.contains("account|42") && text.contains("at 5"), "{text}");
    text
}

fn old() -> Old {
    Old {
        count: 7,
        name: "name".to_owned(),
        sum: -3,
    }
}

#[test]
fn an_event_carries_what_its_type_declares() {
    let encoded = encode::<Upcasting>(Arc::new(Json), &Upcasting { total: 4 }).event;
    assert_eq!(encoded.payload, br#"{"total":4}"#.as_slice());
    assert_eq!(encoded.codec, CodecId::JSON);
    assert_eq!(
        (encoded.manifest.as_str(), encoded.schema_version),
        ("changed", 3)
    );
    assert_eq!(encoded.timestamp, Timestamp(9));
    assert_eq!(encoded.tags, [Tag::from_static("upcasting")]);
}

/// Runs a test body with each codec that carries names.
macro_rules! with_names {
    ($(fn $test:ident($codec:ident) $body:block)*) => {$(
        #[test]
        fn $test() {
            {
                let $codec = MessagePack;
                $body
            }
            let $codec = Json;
            $body
        }
    )*};
}

with_names! {
    fn with_names_a_removed_field_is_dropped(codec) {
        let record = encode::<Old>(Arc::new(codec), &old());
        let new: FieldRemoved = decode(Arc::new(codec), &record).unwrap();
        assert_eq!(new, FieldRemoved { count: 7, sum: -3 });
        let new: FieldRemovedInVersion2 = decode(Arc::new(codec), &record).unwrap();
        assert_eq!(new, FieldRemovedInVersion2 { count: 7, sum: -3 });
    }

    fn with_names_a_missing_field_is_an_error_unless_it_has_a_default(codec) {
        let record = encode::<Old>(Arc::new(codec), &old());
        let text = undecodable(decode::<FieldAdded>(Arc::new(codec), &record));
        assert!(text.contains("register an upcaster"), "{text}");
        let new: FieldAddedWithDefault = decode(Arc::new(codec), &record).unwrap();
        assert!(!new.added && new.name == "name");
    }

    fn with_names_fields_may_be_reordered(codec) {
        let record = encode::<Old>(Arc::new(codec), &old());
        let new: FieldsReordered = decode(Arc::new(codec), &record).unwrap();
        assert_eq!((new.count, new.sum), (7, -3));
    }

    fn with_names_an_inserted_variant_changes_no_other(codec) {
        let record = encode::<OldChoice>(Arc::new(codec), &OldChoice::Withdrawn { cents: 5 });
        let new: VariantInserted = decode(Arc::new(codec), &record).unwrap();
        assert_eq!(new, VariantInserted::Withdrawn { cents: 5 });
    }

    fn an_unknown_variant_is_an_error(codec) {
        let record = encode::<VariantInserted>(Arc::new(codec), &VariantInserted::Opened { cents: 5 });
        undecodable(decode::<OldChoice>(Arc::new(codec), &record));
    }

    fn an_unknown_manifest_is_an_error_that_names_it(codec) {
        let mut record = encode::<Old>(Arc::new(codec), &old());
        record.event.manifest = Manifest::from_static("renamed");
        let text = undecodable(decode::<Old>(Arc::new(codec), &record));
        assert!(text.contains("\"renamed\"") && text.contains("\"changed\""), "{text}");
    }

    fn a_newer_version_is_an_error_even_if_it_would_decode(codec) {
        let mut record = encode::<Old>(Arc::new(codec), &old());
        record.event.schema_version = 2;
        let text = undecodable(decode::<Old>(Arc::new(codec), &record));
        assert!(text.contains("version 2") && text.contains("upgrade the program"), "{text}");
    }

    fn damaged_bytes_are_an_error(codec) {
        let mut record = encode::<Old>(Arc::new(codec), &old());
        record.event.payload = record.event.payload.slice(1..);
        undecodable(decode::<Old>(Arc::new(codec), &record));
    }

    fn an_upcaster_reads_its_manifest_and_version(codec) {
        let record = encode::<Old>(Arc::new(codec), &old());
        assert_eq!(decode::<Upcasting>(Arc::new(codec), &record).unwrap(), Upcasting { total: 997 });
        let current = encode::<Upcasting>(Arc::new(codec), &Upcasting { total: 4 });
        assert_eq!(decode::<Upcasting>(Arc::new(codec), &current).unwrap(), Upcasting { total: 4 });
        let mut newer = current;
        newer.event.schema_version = 4;
        undecodable(decode::<Upcasting>(Arc::new(codec), &newer));
    }
}

#[test]
fn an_upcaster_reads_another_manifest_but_only_its_version() {
    let mut ancient = encode::<Upcasting>(Arc::new(Json), &Upcasting { total: 0 });
    ancient.event.payload = b"12".as_slice().into();
    ancient.event.manifest = Manifest::from_static("ancient");
    ancient.event.schema_version = 7;
    assert_eq!(
        decode::<Upcasting>(Arc::new(Json), &ancient).unwrap(),
        Upcasting { total: 12 }
    );
    ancient.event.schema_version = 6;
    let text = undecodable(decode::<Upcasting>(Arc::new(Json), &ancient));
    assert!(text.contains("\"ancient\""), "{text}");
}

#[test]
fn what_an_upcaster_cannot_read_is_an_error() {
    let mut record = encode::<Old>(Arc::new(Json), &old());
    record.event.payload = b"{}".as_slice().into();
    undecodable(decode::<Upcasting>(Arc::new(Json), &record));
}

#[test]
fn payloads_of_another_codec_of_this_build_are_read_by_a_plain_reader_and_an_upcaster() {
    let record = encode::<Old>(Arc::new(MessagePack), &old());
    assert_eq!(decode::<Old>(Arc::new(Json), &record).unwrap(), old());
    assert_eq!(
        decode::<Upcasting>(Arc::new(Json), &record).unwrap(),
        Upcasting { total: 997 }
    );
}

#[test]
fn an_unknown_codec_is_an_error_that_names_it() {
    let mut record = encode::<Old>(Arc::new(MessagePack), &old());
    record.event.codec = CodecId(4_711);
    let text = undecodable(decode::<Old>(Arc::new(MessagePack), &record));
    assert!(text.contains("4711"), "{text}");
    undecodable(decode::<Upcasting>(Arc::new(MessagePack), &record));
}

#[test]
fn a_codec_with_names_needs_no_declared_version() {
    let record = encode::<Undeclared>(Arc::new(MessagePack), &Undeclared { count: 1 });
    assert_eq!(record.event.schema_version, 0);
    assert_eq!(
        decode::<Undeclared>(Arc::new(Json), &record).unwrap(),
        Undeclared { count: 1 }
    );
}

#[cfg(not(feature = "bincode"))]
#[test]
fn bincode_is_an_unknown_codec_without_its_feature() {
    let mut record = encode::<Old>(Arc::new(MessagePack), &old());
    record.event.codec = CodecId::BINCODE;
    undecodable(decode::<Old>(Arc::new(MessagePack), &record));
}

#[cfg(feature = "bincode")]
mod bincode {
    use journal_core::{Bincode, Codec};

    use super::*;

    #[test]
    fn bincode_reads_a_changed_type_as_something_else_if_the_version_stays() {
        // Why it demands a version: these are the silent errors that the following tests show to be typed ones.
        let record = encode::<Old>(Arc::new(Bincode), &old());
        let payload = &record.event.payload;
        let removed: Result<FieldRemoved, _> = Bincode.decode(payload);
        assert!(removed.is_err(), "the bytes of the removed field are left over");
        let record = encode::<OldChoice>(Arc::new(Bincode), &OldChoice::Deposited { cents: 5 });
        assert_eq!(
            decode::<VariantInserted>(Arc::new(Bincode), &record).unwrap(),
            VariantInserted::Opened { cents: 5 }
        );
    }

    #[test]
    fn bincode_demands_a_declared_version() {
        let error = EventSerializer::<Undeclared>::new(Arc::new(Bincode)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("version = 1"), "{error}");
    }

    #[test]
    fn with_bincode_another_version_is_an_error() {
        let record = encode::<Old>(Arc::new(Bincode), &old());
        let text = undecodable(decode::<FieldRemovedInVersion2>(Arc::new(Bincode), &record));
        assert!(
            text.contains("older") && text.contains("register an upcaster for version 1"),
            "{text}"
        );
        let record = encode::<OldChoice>(Arc::new(Bincode), &OldChoice::Deposited { cents: 5 });
        undecodable(decode::<VariantInsertedInVersion2>(Arc::new(Bincode), &record));
        let newer = encode::<FieldRemovedInVersion2>(
            Arc::new(Bincode),
            &FieldRemovedInVersion2 { count: 7, sum: -3 },
        );
        assert!(undecodable(decode::<FieldRemoved>(Arc::new(Bincode), &newer)).contains("newer"));
    }

    #[test]
    fn the_version_of_a_bincode_payload_counts_whatever_codec_writes_now() {
        let record = encode::<Old>(Arc::new(Bincode), &old());
        let text = undecodable(decode::<FieldRemovedInVersion2>(Arc::new(MessagePack), &record));
        assert!(text.contains("older"), "{text}");
        assert_eq!(decode::<Old>(Arc::new(MessagePack), &record).unwrap(), old());
    }

    #[test]
    fn bincode_reads_older_payloads_of_codecs_with_names() {
        let record = encode::<Old>(Arc::new(MessagePack), &old());
        let new: FieldRemovedInVersion2 = decode(Arc::new(Bincode), &record).unwrap();
        assert_eq!(new, FieldRemovedInVersion2 { count: 7, sum: -3 });
    }

    #[test]
    fn an_upcaster_reads_an_older_bincode_payload() {
        let record = encode::<Old>(Arc::new(Bincode), &old());
        assert_eq!(
            decode::<Upcasting>(Arc::new(Bincode), &record).unwrap(),
            Upcasting { total: 997 }
        );
    }
}

#[test]
fn a_manifest_of_the_engines_own_events_is_refused() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Reserved;
    impl Event for Reserved {
        const MANIFEST: &'static str = "actor-journal/mine";
        const VERSION: u32 = 1;
    }
    assert!(Manifest::from_static(Reserved::MANIFEST).is_reserved());
    let error = EventSerializer::<Reserved>::new(Arc::new(MessagePack)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("reserved"), "{error}");
}
