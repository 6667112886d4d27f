//! What the derive makes of structs and enums.
#![allow(dead_code, reason = "events are declared, not all of them made")]

// What the derive names by default is the facade. It re-exports the core, which stands in for it here.
extern crate journal_core as actor_journal;

use journal_core::{Event, Tag};
use journal_derive::Event;
use serde::{Deserialize, Serialize};

fn tags(event: &impl Event) -> Vec<String> {
    event.tags().iter().map(ToString::to_string).collect()
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "opened", crate = journal_core)]
struct Opened {
    owner: String,
}

#[test]
fn a_struct_with_a_manifest_alone_has_no_version_no_tags_and_no_upcasters() {
    let opened = Opened {
        owner: "a".to_owned(),
    };
    assert_eq!((Opened::MANIFEST, Opened::VERSION), ("opened", 0));
    assert_eq!(tags(&opened), [""; 0]);
    assert_eq!(format!("{:?}", Opened::upcasters()), "{}");
}

mod by_default {
    #[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
    #[event(manifest = "renamed", version = 4_294_967_295, tags("a"))]
    pub(crate) struct Unit;
}

#[test]
fn without_a_crate_key_the_trait_is_found_in_the_facade() {
    assert_eq!(by_default::Unit::VERSION, u32::MAX);
    assert_eq!(tags(&by_default::Unit), ["a"]);
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "account-event", version = 2, crate = journal_core)]
#[event(tags("account", "all"), upcasters = old::upcasters)]
enum AccountEvent {
    Created,
    #[event(tags("money", "all"))]
    Deposited(u64),
    #[event(tags("money"))]
    #[event()]
    Withdrawn {
        cents: u64,
    },
}

mod old {
    pub(crate) fn upcasters() -> journal_core::Upcasters<super::AccountEvent> {
        journal_core::Upcasters::new().register("account-event", 1, super::AccountEvent::Deposited)
    }
}

#[test]
fn a_variant_adds_its_tags_to_those_of_the_enum() {
    assert_eq!(tags(&AccountEvent::Created), ["account", "all"]);
    assert_eq!(tags(&AccountEvent::Deposited(1)), ["account", "all", "money"]);
    assert_eq!(
        tags(&AccountEvent::Withdrawn { cents: 1 }),
        ["account", "all", "money"]
    );
}

#[test]
fn the_upcasters_are_those_of_the_function() {
    assert_eq!(
        format!("{:?}", AccountEvent::upcasters()),
        "{(\"account-event\", 1)}"
    );
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "all-tagged", crate = journal_core)]
enum AllTagged {
    #[event(tags("a"))]
    A,
    #[event(tags("b"))]
    B,
}

#[test]
fn an_enum_may_leave_all_tags_to_its_variants() {
    assert_eq!(
        (tags(&AllTagged::A), tags(&AllTagged::B)),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "moved", tags("moved"), tags_with = Self::places, crate = journal_core)]
struct Moved {
    from: String,
    to: String,
}

impl Moved {
    fn places(&self) -> Vec<Tag> {
        vec![self.from.as_str().into(), self.to.as_str().into()]
    }
}

#[test]
fn a_function_adds_tags_and_none_is_given_twice() {
    let moved = |from: &str, to: &str| Moved {
        from: from.into(),
        to: to.into(),
    };
    assert_eq!(tags(&moved("a", "b")), ["moved", "a", "b"]);
    assert_eq!(tags(&moved("a", "a")), ["moved", "a"]);
    assert_eq!(tags(&moved("moved", "b")), ["moved", "b"]);
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "never", tags("never"), crate = journal_core)]
enum Never {}

#[test]
fn an_enum_without_variants_is_an_event_type_too() {
    assert_eq!(Never::MANIFEST, "never");
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "free", tags("a"), tags_with = tags_of, upcasters = upcasters, crate = journal_core)]
struct Free;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "named-like-ours", tags_with = functions::tags, crate = journal_core)]
struct QualifiedPath;

mod functions {
    pub(crate) fn tags(_: &super::QualifiedPath) -> Vec<super::Tag> {
        vec!["q".into()]
    }
}

fn tags_of(_: &Free) -> Vec<Tag> {
    vec!["b".into()]
}

fn upcasters() -> journal_core::Upcasters<Free> {
    journal_core::Upcasters::new().register("free", 7, |(): ()| Free)
}

#[test]
fn functions_may_stand_anywhere() {
    assert_eq!(tags(&Free), ["a", "b"]);
    assert_eq!(tags(&QualifiedPath), ["q"]);
    assert_eq!(format!("{:?}", Free::upcasters()), "{(\"free\", 7)}");
}

mod shadowing {
    use journal_core::Tag;

    #[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
    #[event(manifest = "a", tags("a"), tags_with = tags, crate = journal_core)]
    pub(crate) struct Tags;

    #[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
    #[event(manifest = "b", tags("a"), tags_with = more, crate = journal_core)]
    pub(crate) struct More;

    fn tags(_: &Tags) -> Vec<Tag> {
        vec!["t".into()]
    }

    fn more(_: &More) -> Vec<Tag> {
        vec!["m".into()]
    }
}

#[test]
fn functions_may_be_called_like_variables_of_the_generated_code() {
    assert_eq!(tags(&shadowing::Tags), ["a", "t"]);
    assert_eq!(tags(&shadowing::More), ["a", "m"]);
}

/// Names that the generated code must not fall over.
mod hygiene {
    #![allow(dead_code, reason = "on purpose")]
    struct Vec;
    struct Event;
    struct Tag;

    #[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
    #[event(manifest = "hygienic", version = 1, tags("a"), crate = ::journal_core)]
    pub(crate) enum Hygienic {
        #[event(tags("b"))]
        #[deprecated]
        Old,
        New,
    }
}

#[test]
fn the_derive_does_not_depend_on_what_is_in_scope() {
    assert_eq!(tags(&hygiene::Hygienic::New), ["a"]);
}

#[test]
fn wrong_attributes_are_errors_that_say_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
