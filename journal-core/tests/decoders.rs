//! Any bytes into every decoder: a value or an error, never a panic, and no allocation that only the bytes ask for.
//!
//! A failure prints the smallest input that still fails and leaves its seed in `decoders.regressions` beside this file,
//! which `cargo test -p journal-core --features bincode --test decoders` then repeats first. `PROPTEST_CASES=100000` in
//! front of that looks further.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use journal_core::{CodecError, Json, MessagePack, SharedCodec};
use proptest::{
    collection::{btree_map, hash_map, vec},
    option,
    prelude::*,
    sample::Index,
    test_runner::FileFailurePersistence,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Nested {
    text: String,
    numbers: Vec<u64>,
    bytes: Vec<u8>,
    texts: Vec<String>,
    shapes: BTreeMap<String, Vec<Shape>>,
    hashed: HashMap<u32, (char, bool)>,
    optional: Option<Box<Shape>>,
    real: f64,
    unit: (),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    Newtype(String),
    Tuple(u8, i64),
    Struct { name: String, sizes: Vec<Option<i32>> },
}

fn codecs<T: Serialize + DeserializeOwned + 'static>() -> Vec<SharedCodec<T>> {
    vec![
        Arc::new(MessagePack),
        Arc::new(Json),
        #[cfg(feature = "bincode")]
        Arc::new(journal_core::Bincode),
    ]
}

fn encode<T: 'static>(codec: &SharedCodec<T>, value: &T) -> Vec<u8> {
    let mut payload = Vec::new();
    codec.encode(value, &mut payload).unwrap();
    payload
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Unit),
        any::<String>().prop_map(Shape::Newtype),
        any::<(u8, i64)>().prop_map(|(small, wide)| Shape::Tuple(small, wide)),
        (any::<String>(), vec(any::<Option<i32>>(), 0..4))
            .prop_map(|(name, sizes)| Shape::Struct { name, sizes }),
    ]
}

fn nested() -> impl Strategy<Value = Nested> {
    let lists = (
        vec(any::<u64>(), 0..9),
        vec(any::<u8>(), 0..40),
        vec(any::<String>(), 0..4),
    );
    let maps = (
        btree_map(any::<String>(), vec(shape(), 0..4), 0..4),
        hash_map(any::<u32>(), any::<(char, bool)>(), 0..4),
    );
    let others = (
        any::<String>(),
        option::of(shape().prop_map(Box::new)),
        any::<i32>().prop_map(f64::from),
    );
    (lists, maps, others).prop_map(
        |((numbers, bytes, texts), (shapes, hashed), (text, optional, real))| Nested {
            text,
            numbers,
            bytes,
            texts,
            shapes,
            hashed,
            optional,
            real,
            unit: (),
        },
    )
}

/// A change of one place: there, these bytes instead of so many.
#[derive(Debug, Clone)]
struct Damage(Index, Vec<u8>, usize);

fn damage() -> impl Strategy<Value = Damage> {
    let lengths = prop_oneof![
        vec(any::<u8>(), 0..4),
        Just(vec![0xff; 4]),
        // The widest lengths of each format.
        Just(vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xdf, 0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xdb, 0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xc6, 0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xfd, 0, 0, 0, 0, 0, 0, 0, 0x10]),
    ];
    (any::<Index>(), lengths, 0..9_usize).prop_map(|(at, bytes, instead_of)| Damage(at, bytes, instead_of))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_encoded_is_decoded_and_neither_a_part_nor_more_is(
        value in nested(), cut in any::<Index>(), surplus in 1..=255_u8,
    ) {
        // White space after a value is JSON.
        let surplus = if surplus.is_ascii_whitespace() { b'x' } else { surplus };
        for codec in codecs::<Nested>() {
            let mut payload = encode(&codec, &value);
            prop_assert_eq!(&codec.decode(&payload).unwrap(), &value, "{:?}", codec);
            let part = &payload[..cut.index(payload.len())];
            prop_assert!(codec.decode(part).is_err(), "{codec:?} decodes a part: {part:?}");
            payload.push(surplus);
            prop_assert!(codec.decode(&payload).is_err(), "{codec:?} decodes more: {payload:?}");
        }
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(payload in vec(any::<u8>(), 0..600)) {
        for codec in codecs::<Nested>() {
            if let Ok(value) = codec.decode(&payload) {
                encode(&codec, &value);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_a_value_or_an_error(value in nested(), damages in vec(damage(), 1..4)) {
        for codec in codecs::<Nested>() {
            let mut payload = encode(&codec, &value);
            for Damage(at, bytes, instead_of) in &damages {
                let from = at.index(payload.len() + 1);
                let to = payload.len().min(from + instead_of);
                payload.splice(from..to, bytes.iter().copied());
            }
            if let Ok(value) = codec.decode(&payload) {
                encode(&codec, &value);
            }
        }
    }
}

/// The most address space this process ever had, in bytes: it grows with memory that is only asked for, too.
#[cfg(target_os = "linux")]
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[cfg(target_os = "linux")]
fn refuses_cheaply<T: std::fmt::Debug + 'static>(codec: &SharedCodec<T>, payload: &[u8]) {
    // Room for the heaps of the test threads beside this one; what the payloads claim is four times as much.
    const ROOM: usize = 256 << 20;
    let before = peak();
    let decoded = codec.decode(payload);
    assert!(
        matches!(decoded, Err(CodecError::Decode { .. })),
        "{payload:x?} is {decoded:?}"
    );
    assert!(
        peak() - before < ROOM,
        "{codec:?} allocates what {payload:x?} claims"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_message_pack_header_that_claims_gigabytes_costs_nothing() {
    let codec: SharedCodec<Vec<u64>> = Arc::new(MessagePack);
    refuses_cheaply(&codec, &[0xdd, 0xff, 0xff, 0xff, 0xff]);
    let codec: SharedCodec<Vec<[u64; 32]>> = Arc::new(MessagePack);
    refuses_cheaply(&codec, &[0xdd, 0xff, 0xff, 0xff, 0xff]);
    let codec: SharedCodec<BTreeMap<u64, u64>> = Arc::new(MessagePack);
    refuses_cheaply(&codec, &[0xdf, 0xff, 0xff, 0xff, 0xff]);
    let codec: SharedCodec<HashMap<u64, [u64; 32]>> = Arc::new(MessagePack);
    refuses_cheaply(&codec, &[0xdf, 0xff, 0xff, 0xff, 0xff]);
    let codec: SharedCodec<String> = Arc::new(MessagePack);
    refuses_cheaply(&codec, &[0xdb, 0xff, 0xff, 0xff, 0xff, b'x']);
    refuses_cheaply(&codec, &[0xc6, 0xff, 0xff, 0xff, 0xff, b'x']);
}

#[cfg(feature = "bincode")]
mod bincode {
    use journal_core::Bincode;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_bincode_length_that_claims_gigabytes_costs_nothing() {
        let claim = |length: u64| [&[0xfd][..], &length.to_le_bytes()].concat();
        // 2^60 and more no machine has; just below 2^30 many a machine would give.
        for length in [u64::MAX, 1 << 60, (1 << 30) - 64] {
            let codec: SharedCodec<String> = Arc::new(Bincode);
            refuses_cheaply(&codec, &claim(length));
            let mut longer = claim(length);
            longer.resize(5_000, b'x');
            refuses_cheaply(&codec, &longer);
            let codec: SharedCodec<Vec<[u64; 32]>> = Arc::new(Bincode);
            refuses_cheaply(&codec, &claim(length));
            let codec: SharedCodec<HashMap<u64, String>> = Arc::new(Bincode);
            refuses_cheaply(&codec, &claim(length));
        }
    }

    #[test]
    fn a_bincode_payload_of_many_small_numbers_fits_its_own_limit() {
        let codec: SharedCodec<Vec<u128>> = Arc::new(Bincode);
        // Around both steps of the limit.
        for count in [4_090, 4_096, 4_100, (512 << 10) - 5, (512 << 10) + 5] {
            let numbers = vec![1; count];
            let payload = encode(&codec, &numbers);
            assert!(payload.len() < count + 10);
            assert_eq!(codec.decode(&payload).unwrap(), numbers);
        }
    }
}

/// Types that contain themselves, by each way a decoder descends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf,
    Boxed(Box<Tree>),
    List(Vec<Tree>),
    Node { child: Option<Box<Tree>> },
    Pair(Box<Tree>, u8),
}

fn self_describing() -> [SharedCodec<Tree>; 2] {
    [Arc::new(MessagePack), Arc::new(Json)]
}

/// A leaf below so many levels of each kind.
fn trees(levels: usize) -> Vec<Tree> {
    let descend: [fn(Tree) -> Tree; 4] = [
        |tree| Tree::Boxed(Box::new(tree)),
        |tree| Tree::List(vec![tree]),
        |tree| Tree::Node {
            child: Some(Box::new(tree)),
        },
        |tree| Tree::Pair(Box::new(tree), 0),
    ];
    let tree = |kind: &fn(Tree) -> Tree| (0..levels).fold(Tree::Leaf, |tree, _| kind(tree));
    descend.iter().map(tree).collect()
}

#[test]
fn nesting_that_would_overflow_the_stack_is_an_error() {
    let deep = |head: &[u8], tail: &[u8]| [head.repeat(100_000), tail.to_vec()].concat();
    let [message_pack, json] = self_describing();
    for payload in [
        deep(b"\x81\xa5Boxed", b"\xa4Leaf"),
        deep(b"\x81\xa4List\x91", b"\xa4Leaf"),
        deep(b"\x81\xa4Node\x81\xa5child", b"\xa4Leaf"),
        deep(b"\x81\xa4Pair\x92", b"\xa4Leaf"),
    ] {
        assert!(message_pack.decode(&payload).is_err());
    }
    for payload in [
        deep(br#"{"Boxed":"#, b"\"Leaf\""),
        deep(br#"{"List":["#, b"\"Leaf\""),
        deep(br#"{"Node":{"child":"#, b"\"Leaf\""),
        deep(br#"{"Pair":["#, b"\"Leaf\""),
    ] {
        assert!(json.decode(&payload).is_err());
    }
}

#[test]
fn what_is_nested_too_deep_to_be_decoded_is_not_encoded() {
    for codec in self_describing() {
        let mut refused = 0;
        for tree in (0..140).flat_map(trees) {
            let mut payload = Vec::new();
            match codec.encode(&tree, &mut payload) {
                Ok(()) => assert_eq!(codec.decode(&payload).unwrap(), tree),
                Err(error) => {
                    assert!(matches!(error, CodecError::Encode { .. }));
                    assert!(
                        codec.decode(&payload).is_err(),
                        "{codec:?} refuses what it could decode"
                    );
                    refused += 1;
                }
            }
        }
        // 127 levels: of one kind one each, of the others two each.
        assert_eq!(refused, (140 - 128) + 3 * (140 - 64), "{codec:?}");
    }
}

#[test]
fn brackets_in_texts_are_not_nesting() {
    for codec in codecs::<Vec<String>>() {
        let texts = vec!["[{\"\\[".repeat(200), "}]\\\"".repeat(200)];
        assert_eq!(codec.decode(&encode(&codec, &texts)).unwrap(), texts);
    }
}
