//! Lessons of `giusto explore` in a headless Chromium, by keyboard alone, and what axe-core finds of the page.

use std::{env, fs};

use serde_json::{Value, json};

use crate::{
    common::{Folder, chromium::Chromium, skip},
    explore::{CALL, SETTLED, Serving, settled_as, value},
};

/// A lesson whose run is on the screen.
const SHOWN: &str = "{ const own = document.querySelector('.learn'); \
    document.body.classList.contains('learning') && own.getAttribute('aria-busy') === 'false' && Number(own.dataset.films) > 0; }";

/// Goes on by Tab until the focus is on what `selector` means, and returns the number of Tabs.
fn tab_to(browser: &mut Chromium, selector: &str) -> usize {
    let is_there = format!("document.activeElement.matches({})", json!(selector));
    for tabs in 1..=40 {
        browser.press("Tab");
        if browser.evaluate(&is_there) == true {
            return tabs;
        }
    }
    panic!("{selector}: {}", browser.evaluate("document.activeElement.outerHTML"));
}

fn enter(browser: &mut Chromium, selector: &str) -> usize {
    let tabs = tab_to(browser, selector);
    browser.press("Enter");
    tabs
}

/// Asserts that the windows of a phone and of a desktop show all: no sentence below the edge of its card, and no label that is cut off.
fn assert_fits(browser: &mut Chromium) {
    for (width, height) in [(400, 800), (1400, 900)] {
        browser.resize(width, height);
        browser.wait(&format!("innerWidth === {width}"));
        assert_eq!(browser.evaluate(CUT), json!([]));
    }
}

/// By keyboard alone; every scene fits both windows, before its answer and after it.
#[test]
fn every_lesson_is_walked_by_keyboard_and_fits() {
    let Some(mut browser) = Chromium::start("every_lesson_is_walked_by_keyboard") else { return };
    // Nothing moves by itself.
    browser.prefer("prefers-reduced-motion", "reduce");
    let page = Serving::start(&[]);
    browser.open(&page.1);
    browser.wait("document.querySelectorAll('.gallery .sketch svg').length >= 4");
    enter(&mut browser, ".gallery h3 button");
    let lessons = browser.evaluate("lessons.length").as_u64().unwrap();
    assert!(lessons >= 12);
    for number in 1..=lessons {
        browser.wait(SHOWN);
        let place = browser.evaluate("document.querySelector('.where').textContent");
        assert!(place.as_str().unwrap().contains(&format!("Lesson {number} of {lessons}")), "{place}");
        assert_fits(&mut browser);
        // Before the guess the page tells nothing.
        let lines = "document.querySelectorAll('.strip .ahead').length";
        assert_eq!(browser.evaluate(lines), 0);
        assert!(enter(&mut browser, "[data-guess]") <= 2);
        assert!(browser.evaluate(lines).as_u64() > Some(0));
        let verdict = browser.evaluate("document.querySelector('.verdict').textContent");
        assert!(verdict.as_str().unwrap().starts_with("You guessed"), "{verdict}");
        let steps =
            browser.evaluate("lessons.find(({ name }) => name === learning.entry.name).lesson.steps.length");
        for step in 1..=steps.as_u64().unwrap() {
            assert_fits(&mut browser);
            enter(&mut browser, ".next, .onward button:last-child");
            assert_fits(&mut browser);
            enter(&mut browser, "[data-change=stays]");
            let said = browser.wait(
                "document.querySelector('.say')?.isConnected && document.querySelector('.say').textContent",
            );
            let said = said.as_str().unwrap();
            assert!(
                said.starts_with("You changed ") && said.matches(" to ").count() >= 1,
                "{number}, {step}: {said}"
            );
            browser.wait(SHOWN);
            // What was before is beside it.
            assert!(browser.evaluate("document.querySelectorAll('.strip .ghost').length").as_u64() > Some(0));
            let focus = browser.evaluate("document.activeElement.id");
            browser.evaluate("document.getElementById('scene').focus();");
            assert!(focus == "scene" || focus == "", "{focus}");
        }
        for _ in 0..2 {
            assert_fits(&mut browser);
            enter(&mut browser, ".next");
        }
        assert_fits(&mut browser);
        let own = browser.evaluate("document.querySelector('.card-of pre').textContent");
        assert!(own.as_str().unwrap().contains("giusto "), "{own}");
        if number < lessons {
            enter(&mut browser, ".next");
        }
    }
    assert_eq!(browser.evaluate("learning.place.dataset.playing ?? 'no'"), "no");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_lesson_fits_the_window_plays_and_follows_its_knobs() {
    let Some(mut browser) = Chromium::start("a_lesson_fits_the_window") else { return };
    let page = Serving::start(&[]);
    for (width, height) in [(1400, 900), (400, 800)] {
        browser.resize(width, height);
        browser.open("about:blank");
        browser.open(&page.1);
        browser.wait("document.querySelector('.gallery h3 button') !== null");
        browser.evaluate("document.querySelector('.gallery h3 button').click();");
        browser.wait(SHOWN);
        browser.evaluate("document.querySelector('[data-guess=\"1\"]').click();");
        // It plays by itself.
        browser.wait("Number(learning.place.dataset.t) > 0.3");
        let size =
            browser.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]");
        assert!(size[0].as_u64() <= Some(width.into()) && size[1].as_u64() <= Some(height.into()), "{size}");
        let waiting = "Number(/([0-9]+) packets wait/.exec(document.querySelector('.stage').getAttribute('aria-label'))[1])";
        browser.evaluate("{ const own = document.querySelector('.transport input'); own.value = 20; own.dispatchEvent(new Event('input')); }");
        let long = browser.evaluate(waiting);
        assert!(long.as_u64() > Some(500), "{long}");
        browser.evaluate("document.querySelector('.turn input[data-knob=\"0\"][value=\"1\"]').click();");
        let said =
            browser.wait("document.querySelector('.say').textContent || learning.place.dataset.films > 1");
        browser.wait(SHOWN);
        browser.evaluate("{ const own = document.querySelector('.transport input'); own.value = 20; own.dispatchEvent(new Event('input')); }");
        let short = browser.evaluate(waiting);
        assert!((50..200).contains(&short.as_u64().unwrap()), "{short}, {said}");
    }
    // A link opens the lesson as it was left, and all controls show the same run.
    let link = browser.evaluate("location.href");
    browser.resize(1400, 900);
    browser.open("about:blank");
    browser.open(link.as_str().unwrap());
    browser.wait(SHOWN);
    assert_eq!(browser.evaluate("document.querySelector('.turn input[data-knob=\"0\"]:checked').value"), "1");
    browser.evaluate("leaveLesson();");
    settled_as(&mut browser, "record.runs?.[0].links[0].queue.includes('300 ms')");
    assert_eq!(browser.errors, [""; 0]);
}

const CUT: &str = "{ const card = document.querySelector('.card-of'); [
    card.scrollHeight > card.clientHeight + 1 && `${card.scrollHeight - card.clientHeight} px of the text`,
    document.documentElement.scrollHeight > innerHeight && 'the page',
    ...[...document.querySelectorAll('h1, .learn h2, .learn button, .learn legend, .learn span')]
        .filter((own) => own.checkVisibility() && own.clientWidth && own.scrollWidth > own.clientWidth + 1).map((own) => own.textContent),
].filter(Boolean).map((own) => `${document.title}, ${document.getElementById('scene').textContent}: ${own}`); }";

#[test]
fn a_link_is_followed_while_the_gallery_is_open_and_the_gallery_is_searched() {
    let Some(mut browser) = Chromium::start("a_link_is_followed_in_the_gallery") else { return };
    let page = Serving::start(&[]);
    browser.open(&page.1);
    browser.wait("document.querySelectorAll('.gallery article').length > 80");
    let shown =
        "[...document.querySelectorAll('.gallery article')].filter((own) => own.checkVisibility()).length";
    browser.evaluate("{ const own = document.getElementById('search'); own.value = 'rfc8867 ecn'; own.dispatchEvent(new Event('input')); }");
    assert_eq!(browser.evaluate(shown), 1);
    for name in ["queues/codel", "lessons/04-l4s"] {
        let question = json!({ "sides": [{ "scenario": name, "settings": [["seed", "3"]] }], "controllers": [], "seeds": 1 });
        browser.evaluate(&format!(
            "showGallery(); location.hash = '#q=' + encodeURIComponent(JSON.stringify({question}));"
        ));
        settled_as(
            &mut browser,
            &format!(
                "record.scenario?.endsWith({}) && document.querySelector('.results').checkVisibility()",
                json!(name.rsplit('/').next())
            ),
        );
    }
    assert_eq!(browser.errors, [""; 0]);
}

/// Where axe-core cannot decide a contrast, because the text is short or within a drawing: that of its colour to the background behind it, by
/// WCAG 2.2, if it is below 4.5.
const UNDECIDED: &str = r"
    const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const luminance = (colour) => channels(colour).slice(0, 3)
        .map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
        .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
    const behind = (element) => {
        const colour = element && getComputedStyle(element).backgroundColor;
        return !element || (channels(colour)[3] ?? 1) > 0 ? colour ?? 'rgb(255, 255, 255)' : behind(element.parentElement);
    };
    const contrast = (element) => {
        const own = getComputedStyle(element), text = luminance(element instanceof SVGElement ? own.fill : own.color), back = luminance(behind(element));
        return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
    };";

/// What axe-core finds: violations, and low contrasts among those that it cannot decide.
fn findings(browser: &mut Chromium, axe: &str) -> Value {
    browser.evaluate(&format!("if (!window.axe) {{ {axe}; }}"));
    browser.evaluate(&format!(
        "(async () => {{ {UNDECIDED}
            const {{ violations, incomplete }} = await axe.run(document, {{ resultTypes: ['violations', 'incomplete'] }});
            const undecided = incomplete.filter(({{ id }}) => id === 'color-contrast').flatMap(({{ nodes }}) => nodes)
                .map(({{ target }}) => document.querySelector(target[0]));
            window.decided = undecided.length;
            return [
                ...violations.map(({{ id, nodes }}) => [id, nodes.length, nodes.slice(0, 3).map(({{ html }}) => html.slice(0, 160))]),
                ...undecided.filter((own) => own && contrast(own) < 4.5).slice(0, 5).map((own) => [own.outerHTML.slice(0, 160), contrast(own)]),
            ];
        }})()"
    ))
}

#[test]
fn axe_finds_nothing_in_light_and_dark() {
    let Some(axe) = env::var_os("GIUSTO_TEST_AXE").and_then(|path| fs::read_to_string(path).ok()) else {
        return skip("axe_finds_nothing", "GIUSTO_TEST_AXE names no axe.min.js (npm package axe-core)");
    };
    let Some(mut browser) = Chromium::start("axe_finds_nothing") else { return };
    let folder = Folder::with(CALL);
    let file = folder.path("s.toml").display().to_string();
    let (gallery, bench) = (Serving::start(&[]), Serving::start(&[&file]));
    for dark in [false, true] {
        browser.prefer_dark(dark);
        let check = |browser: &mut Chromium, what: &str| {
            assert_eq!(findings(browser, &axe), json!([]), "{what}, dark: {dark}");
        };
        browser.open(&gallery.1);
        browser.wait("document.querySelectorAll('.gallery .sketch svg').length >= 4");
        check(&mut browser, "gallery");
        browser.evaluate("document.querySelector('.gallery h3 button').click();");
        browser.wait(SHOWN);
        check(&mut browser, "guess");
        browser.evaluate(
            "document.querySelector('[data-guess=\"1\"]').click(); document.querySelector('.play').click();",
        );
        check(&mut browser, "lesson");
        browser.evaluate(
            "document.querySelector('.next').click(); document.querySelector('[data-change=falls]').click();",
        );
        browser.wait("document.querySelector('.say')?.textContent");
        browser.wait(SHOWN);
        browser.evaluate("document.querySelector('.play').click(); [...document.querySelectorAll('.transport button')].at(-1).click();");
        browser.wait("document.querySelector('.numbers') !== null");
        check(&mut browser, "numbers");
        browser.open(&bench.1);
        browser.wait(SETTLED);
        browser.evaluate("document.querySelectorAll('details').forEach((own) => { own.open = true; });");
        check(&mut browser, "all controls");
        // The charts have texts that it cannot decide.
        assert!(browser.evaluate("decided").as_u64() > Some(10));
        assert_eq!(browser.evaluate(&value("link.wire.rate")), "2 Mbit/s");
    }
}
