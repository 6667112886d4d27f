//! The cases, by contract and theme. A doc comment says which guarantee (G1 to G9, see `ARCHITECTURE.md`) a case backs,
//! and which behaviour of the Akka and Pekko test kits (J, JO, S, SO) it takes over.

/// Makes values of a list of cases, as the `__tests` of the crate's root makes tests of it.
macro_rules! registry {
    (() $($theme:ident { $($case:ident,)* })*) => {
        vec![$($(
            $crate::runner::Case {
                name: concat!(stringify!($theme), "::", stringify!($case)),
                run: |subject| Box::pin($theme::$case(subject)),
            },
        )*)*]
    };
}

pub(crate) mod adapter;
pub(crate) mod journal;
pub(crate) mod snapshot;

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fs, path::Path};

    macro_rules! names {
        (() $($theme:ident { $($case:ident,)* })*) => {
            [$($(concat!(stringify!($theme), "::", stringify!($case)),)*)*]
        };
    }

    fn is_engine_test(file: &str, test: &str) -> bool {
        let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../journal-core/tests/engine");
        let source = fs::read_to_string(engine.join(file).with_extension("rs"));
        source.is_ok_and(|source| source.contains(&format!("fn {test}(")))
    }

    #[test]
    fn the_table_of_traps_names_tests_that_exist() {
        let adapter = HashSet::from(crate::__adapter_cases!([names]()));
        let journal = HashSet::from(crate::__journal_cases!([names]()));
        let quoted = include_str!("../docs.md").split('`').skip(1).step_by(2);
        let mut named = 0;
        for name in quoted.filter(|quoted| quoted.contains("::") && !quoted.ends_with("...")) {
            let exists = match (name.strip_prefix("journal "), name.strip_prefix("engine::")) {
                (Some(name), _) => journal.contains(name),
                (_, Some(name)) => name
                    .split_once("::")
                    .is_some_and(|(file, test)| is_engine_test(file, test)),
                _ => adapter.contains(name),
            };
            assert!(exists, "there is no {name}");
            named += 1;
        }
        assert!(named > 50, "{named}");
    }
}
