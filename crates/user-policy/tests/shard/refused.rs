//! Files that are no modules for a policy: each is refused with the thing, the value and the remedy.

use super::*;

fn refused(bytes: &[u8]) -> String {
    Module::new(bytes).unwrap_err().to_string()
}

#[test]
fn exports_are_named_with_their_types() {
    let void = |text: &str| refused(&wat::parse_str(text).unwrap());
    assert_eq!(
        void("(module)"),
        "the module does not export `memory`, a memory; `export!` of the SDK makes all exports"
    );
    assert_eq!(
        void("(module (memory (export \"memory\") 1))"),
        "the module does not export `cards_policy_1`, a function () -> i32; `export!` of the SDK makes all exports"
    );
    assert_eq!(
        void("(module (global (export \"memory\") i32 (i32.const 1)))"),
        "the module's export `memory` is a global; want a memory"
    );
    let begin = "(func (export \"cards_policy_1\") (param i64) (result i32) (i32.const 0))";
    assert_eq!(
        refused(&Text { begin, ..VOID }.bytes()),
        "the module's export `cards_policy_1` is a function (i64) -> i32; want a function () -> i32"
    );
    // Hooks may be missing; if they are there, they have their types.
    let more = "(func (export \"tick\") (result i32 i64) (i32.const 0) (i64.const 0))";
    assert_eq!(
        refused(&Text { more, ..VOID }.bytes()),
        "the module's export `tick` is a function () -> (i32, i64); want a function () -> ()"
    );
    for (name, text, required) in Module::exports() {
        assert!(
            required
                == ["cards_policy_1", "route", "handle_eviction", "keep_consistency", "offered"]
                    .contains(&name)
        );
        assert!(text.starts_with("function ("));
    }
}

#[test]
fn a_policy_only_computes() {
    let import = "(module (import \"env\" \"clock\" (func (result i64))) (memory (export \"memory\") 1))";
    assert!(
        refused(&wat::parse_str(import).unwrap())
            .starts_with("the module imports `env::clock`; a policy has no imports")
    );
    for more in [
        "(func (param f64) (result f64) (f64.add (local.get 0) (local.get 0)))",
        "(func (result i32) (i32.trunc_f32_s (f32.const 1)))",
        "(func (result v128) (v128.const i64x2 0 0))",
        "(memory 1)",
        "(func $start) (start $start)",
    ] {
        let error = Module::new(&Text { more, ..VOID }.bytes()).unwrap_err();
        assert!(
            matches!(error, ModuleError::Invalid { .. } | ModuleError::Beginning { .. }),
            "{more}: {error}"
        );
    }
}

#[test]
fn files_that_are_no_modules_are_refused() {
    assert!(refused(b"").starts_with("not a WebAssembly module"));
    assert!(refused(b"\x7fELF").starts_with("not a WebAssembly module"));
    let whole = VOID.bytes();
    for length in 4..whole.len() {
        let error = Module::new(&whole[..length]).unwrap_err();
        assert!(!error.to_string().is_empty(), "{length}");
    }
    // No byte of it may make a check panic.
    for place in 0..whole.len() {
        for change in [1, 0x40, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] ^= change;
            let _ = Module::new(&bytes);
        }
    }
    let large = vec![0; cards_user_policy::limits::MODULE_BYTES + 1];
    assert!(refused(&large).starts_with("the module has 524289 bytes, more than the 524288 allowed"));
}

#[test]
fn the_beginning_has_its_bounds() {
    let begin = |text: &'static str| refused(&Text { begin: text, ..VOID }.bytes());
    for (text, problem) in [
        (
            "(func (export \"cards_policy_1\") (result i32) (loop $l (br $l)) (i32.const 0))",
            "the module failed at its beginning",
        ),
        (
            "(func (export \"cards_policy_1\") (result i32) (unreachable))",
            "the module failed at its beginning",
        ),
        (
            "(func (export \"cards_policy_1\") (result i32) (i32.const 4))",
            "`cards_policy_1` returned the address 4: want a multiple of 8",
        ),
        (
            "(func (export \"cards_policy_1\") (result i32) (i32.const -8))",
            "`cards_policy_1` returned the address 4294967288",
        ),
        (
            "(func (export \"cards_policy_1\") (result i32) (i32.store8 (i32.const 61) (i32.const 100)) (i32.const 0))",
            "the module reserves 100 percent of the cache",
        ),
    ] {
        let error = begin(text);
        assert!(error.starts_with(problem), "{error}");
    }
    for memory in ["(memory (export \"memory\") 257)", "(memory (export \"memory\") 0)"] {
        assert!(Module::new(&Text { memory, ..VOID }.bytes()).is_err(), "{memory}");
    }
    let globals = "(table 5000 funcref)";
    assert!(Module::new(&Text { globals, ..VOID }.bytes()).is_err());
}
