//! A C program of many files, written by the test.

use std::fmt::Write;
use std::fs;
use std::path::Path;

const MODULES: u32 = 60;
const NUMBERS: u32 = 300;

const MAKEFILE: &str = "\
objects = $(patsubst %.c,out/%.o,$(wildcard m*.c))
program: main.c out/all.a
	$(CC) -O1 -o $@ main.c out/all.a
out/all.a: $(objects)
	$(AR) rcs $@ $(objects)
out/%.o: %.c all.h
	$(CC) -O1 -c -o $@ $<
";

/// Number `index` in the table of `module`.
fn number(module: u32, index: u32) -> u32 {
    (module * NUMBERS + index).wrapping_mul(2_654_435_761)
}

/// Writes the sources and a Makefile into the new directory `dir`.
pub(super) fn write(dir: &Path) {
    fs::create_dir_all(dir.join("out")).unwrap();
    let (mut header, mut calls) = (String::new(), String::new());
    for module in 0..MODULES {
        writeln!(header, "unsigned m{module}(unsigned sum);").unwrap();
        writeln!(calls, "    sum = m{module}(sum);").unwrap();
        let numbers: String = (0..NUMBERS).map(|index| format!("{}u,\n", number(module, index))).collect();
        let source = format!(
            "#include \"all.h\"\nstatic const unsigned numbers[] = {{\n{numbers}}};\n\
             unsigned m{module}(unsigned sum) {{\n\
             for (unsigned i = 0; i < {NUMBERS}; i++) sum = sum * 31 + numbers[i];\nreturn sum;\n}}\n"
        );
        fs::write(dir.join(format!("m{module}.c")), source).unwrap();
    }
    let main = format!(
        "#include <stdio.h>\n#include \"all.h\"\nint main(void) {{\n\
         unsigned sum = 0;\n{calls}    printf(\"%u\\n\", sum);\n}}\n"
    );
    fs::write(dir.join("all.h"), header).unwrap();
    fs::write(dir.join("main.c"), main).unwrap();
    fs::write(dir.join("Makefile"), MAKEFILE).unwrap();
}

/// What the program prints.
pub(super) fn answer() -> String {
    let numbers = (0..MODULES).flat_map(|module| (0..NUMBERS).map(move |index| number(module, index)));
    format!("{}\n", numbers.fold(0u32, |sum, number| sum.wrapping_mul(31).wrapping_add(number)))
}
