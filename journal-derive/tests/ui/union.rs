#[derive(journal_derive::Event)]
#[event(manifest = "a")]
union Both {
    number: u64,
    bytes: [u8; 8],
}

fn main() {}
