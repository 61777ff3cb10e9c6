//! The page in the dark, on a phone, and for those who cannot see it.

use super::{CHROMIUM, is_well, visit};
use crate::harness::tools::need;

/// How light a colour of the page's own is, from 0 to 255.
fn lightness(element: &str, property: &str) -> String {
    format!(
        "(() => {{ const [r, g, b] = getComputedStyle(document.querySelector({element:?})).{property}\
         .match(/[\\d.]+/g).map(Number); return 0.3 * r + 0.6 * g + 0.1 * b; }})()"
    )
}

/// Looks for faults until there are none, or for a while: the page is drawn anew after a change. The last ones.
fn wait_for_none(mut look: impl FnMut() -> String) -> String {
    let mut last = String::new();
    for _ in 0..50 {
        last = look();
        if last.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    last
}

/// Texts that lie upon each other, and elements that are wider than the screen.
const FAULTS: &str = "(() => { \
    const faults = [...document.querySelectorAll('body *')] \
      .filter((one) => !one.closest('.scroll, .skip, legend, input') && one.getBoundingClientRect().right > innerWidth + 1) \
      .map((one) => `too wide: ${one.tagName} ${one.className.baseVal ?? one.className}`); \
    const texts = [...document.querySelectorAll('#picture .node text, h2, .pick, .when, .legend li')] \
      .filter((one) => one.textContent).map((one) => { const range = document.createRange(); \
      range.selectNodeContents(one); return [one, (one.ownerSVGElement ? one : range).getBoundingClientRect()]; }); \
    texts.forEach(([a, p], at) => texts.slice(at + 1).forEach(([b, q]) => { \
      if (!a.contains(b) && p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3) \
        faults.push(`overlap: ${a.textContent} / ${b.textContent}`); })); \
    return faults.join('; '); })()";

#[test]
fn it_is_dark_where_that_is_preferred_and_light_else() {
    need!(CHROMIUM);
    let (_dir, _nodes, pages, mut page) = visit(1);
    for (scheme, dark) in [("dark", true), ("light", false)] {
        page.screen(1280, scheme, "no-preference");
        let (back, text) = (lightness("body", "backgroundColor"), lightness("body", "color"));
        let (back, text) = (page.js(&back).as_f64().unwrap(), page.js(&text).as_f64().unwrap());
        assert_eq!(back < text, dark, "{scheme}: {text} on {back}");
        assert!((back - text).abs() > 150.0, "{scheme}: {text} on {back}");
    }
    // The reader of the page may want it otherwise than his system, and then for good.
    let back = lightness("body", "backgroundColor");
    for (name, dark) in [("dark", true), ("light", false)] {
        page.js("document.getElementById('theme').click()");
        assert_eq!(page.text("document.getElementById('theme').textContent"), format!("Theme: {name}"));
        page.screen(1280, if dark { "light" } else { "dark" }, "no-preference");
        page.open(&format!("http://{}/", pages[0]));
        assert_eq!(page.js(&back).as_f64().unwrap() < 100.0, dark, "{name}");
    }
    is_well(&mut page, &format!("http://{}/", pages[0]));
}

#[test]
fn nothing_is_too_wide_or_upon_another_on_any_screen() {
    need!(CHROMIUM);
    let (_dir, mut nodes, _, mut page) = visit(3);
    page.until("the map is there", "document.querySelectorAll('#map canvas').length === 3");
    for killed in [false, true] {
        if killed {
            nodes.node(3).kill();
            page.until("it is seen", "document.querySelector('#picture .node.away') !== null");
        }
        for place in ["#/", "#/node/n3", "#/volume/disk"] {
            page.js(&format!("location.hash = {place:?}"));
            for width in [360, 640, 800, 1001, 1280, 1920] {
                page.screen(width, "light", "reduce");
                page.until(
                    "it is drawn anew",
                    "document.querySelector('#picture svg').clientWidth <= innerWidth",
                );
                let faults = || page.text(FAULTS);
                let last = wait_for_none(faults);
                assert!(last.is_empty(), "{place} at {width}: {last}");
            }
        }
        page.js("location.hash = '#/'");
    }
}

#[test]
fn nothing_moves_where_that_is_not_wanted() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(1);
    page.screen(1280, "light", "no-preference");
    page.until("something moves", "document.getAnimations().length > 0");
    page.screen(1280, "light", "reduce");
    page.until("nothing moves", "document.getAnimations().length === 0");
}

#[test]
fn all_that_is_shown_has_a_name_for_screen_readers() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(2);
    page.until("the map is there", "document.querySelectorAll('#map canvas').length === 2");
    let nameless = "[...document.querySelectorAll('[role=img], [role=region], button, select, input, section')]\
        .filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length || \
        one.getAttribute('aria-labelledby'))).map((one) => one.outerHTML.slice(0, 80)).join()";
    assert_eq!(page.text(nameless), "");
    let tables = "[...document.querySelectorAll('table')].filter((table) => table.rows.length > 0 && \
        !(table.caption && table.querySelector('th[scope=col]') && table.querySelector('th[scope=row]'))).length";
    assert_eq!(page.js(tables), 0);
    assert_eq!(page.text("document.getElementById('headline').getAttribute('role')"), "status");
}
