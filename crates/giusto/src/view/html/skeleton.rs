//! The HTML file: a skeleton that carries the report as JSON, one script, one style sheet and the chart library.

use super::{Report, Section};
use crate::packed;

/// The chart library, compressed as `assets/plotly/README.md` describes.
const CHART_LIBRARY: &[u8] = include_bytes!("../../../assets/plotly/plotly-basic-4.1.1.min.js.gz");

/// The licence of the chart library asks for this notice in every copy.
const CHART_LIBRARY_NOTICE: &str =
    "plotly.js 4.1.1, copyright Plotly, Inc., MIT licence; bundled licences are named in its source.";

/// Forbids every request: the page is complete.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

/// The same for a page with an engine, which runs in workers.
const POLICY_WITH_ENGINE: &str = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; \
     style-src 'unsafe-inline'; img-src data: blob:";

/// A page that a server of this machine serves.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// The nonce of its script, which the content security policy of the server names.
    pub nonce: &'a str,
    /// What follows the script of all pages.
    pub scripts: &'a [&'a str],
    /// What follows the style sheet of all pages.
    pub style: &'a str,
}

/// What a page has besides its report and what all pages have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct More<'a> {
    /// The nonce of a page that is served.
    pub(super) nonce: Option<&'a str>,
    /// Scripts after that of all pages.
    pub(super) scripts: &'a [&'a str],
    /// What follows the style sheet of all pages.
    pub(super) style: &'a str,
    /// An engine: WebAssembly, compressed by gzip.
    pub(super) engine: Option<&'a [u8]>,
}

impl<'a> From<Served<'a>> for More<'a> {
    fn from(Served { nonce, scripts, style }: Served<'a>) -> Self {
        Self { nonce: Some(nonce), scripts, style, engine: None }
    }
}

/// The page as one HTML text.
pub(super) fn page(report: &Report, more: More<'_>) -> String {
    let title = escaped(&report.title);
    let headline = escaped(&report.headline);
    // Strings, numbers and vectors under names that are strings: serialisation has no way to fail.
    let json = |value: serde_json::Result<String>| script_safe(&value.unwrap_or_default());
    let model = json(serde_json::to_string(report));
    let record = report.record.as_ref().map_or_else(String::new, |record| {
        let record = json(serde_json::to_string(record));
        format!("<script type=\"application/json\" id=\"record\">{record}</script>\n")
    });
    let library = if !more.scripts.is_empty() || report.sections.iter().any(has_chart) {
        format!(
            "<!-- {CHART_LIBRARY_NOTICE} -->\n\
             <script type=\"text/plain\" id=\"chart-library\">{}</script>\n",
            base64(CHART_LIBRARY)
        )
    } else {
        String::new()
    };
    let engine = more.engine.map_or_else(String::new, |engine| {
        format!("<script type=\"text/plain\" id=\"engine\">{}</script>\n", base64(engine))
    });
    // The policy of a served page comes with it, as a header.
    let policy = if more.nonce.is_some() {
        String::new()
    } else {
        let policy = if more.engine.is_some() { POLICY_WITH_ENGINE } else { CONTENT_SECURITY_POLICY };
        format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n")
    };
    let nonce = more.nonce.map_or_else(String::new, |nonce| format!(" nonce=\"{}\"", escaped(nonce)));
    // The chart library writes its rules into this element; one that it makes itself has no nonce.
    let chart_style = more
        .nonce
        .map_or_else(String::new, |_| format!("<style{nonce} id=\"plotly.js-style-global\"></style>\n"));
    let (style, script, charts) =
        (packed::page("page.css"), packed::page("page.js"), packed::page("charts.js"));
    let (more_script, more_style) = (more.scripts.concat(), more.style);
    format!(
        "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
{policy}<title>{title}</title>
<style{nonce}>
{style}{more_style}</style>
{chart_style}</head>
<body>
<main>
<header>
<h1>{title}</h1>
<p class=\"headline\">{headline}</p>
</header>
<noscript><p>A script in this file draws the tables and charts. Enable scripts to see them; the file loads nothing.</p></noscript>
</main>
<script type=\"application/json\" id=\"page\">{model}</script>
{record}{library}{engine}<script{nonce}>
{script}{charts}{more_script}</script>
</body>
</html>
"
    )
}

fn has_chart(section: &Section) -> bool {
    match section {
        Section::Chart(_) => true,
        Section::Linked(linked) => linked.charts.iter().any(|chart| !chart.series.is_empty()),
        _ => false,
    }
}

/// JSON that cannot end its script element or open a comment: in JSON, `<` occurs in strings only.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Base64 (RFC 4648 §4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: [u8; 64] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| DIGITS.get(bits as usize % DIGITS.len()).map_or(b'=', |&digit| digit);
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        text.extend([18, 12, 6, 0].map(|shift| digit(bits >> shift)));
    }
    let padding = (3 - bytes.len() % 3) % 3;
    text.truncate(text.len() - padding);
    text.extend([b'='; 2].iter().take(padding));
    String::from_utf8(text).unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::html::{Block, Card, Cell, Chart, Prose, Series, Table, Tone};

    /// The JSON of the script element `id`.
    fn embedded(html: &str, id: &str) -> Value {
        let (_, rest) = html.split_once(&format!("<script type=\"application/json\" id=\"{id}\">")).unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    /// The page without the content of its scripts and its style sheet.
    fn markup(html: &str) -> String {
        let mut markup = String::new();
        let mut rest = html;
        while let Some((before, after)) = rest.split_once("<script") {
            markup.push_str(before);
            rest = after.split_once("</script>").unwrap().1;
        }
        markup + rest
    }

    #[test]
    fn the_model_is_embedded_as_json() {
        let mut report = Report::new("t", "h").with_command("giusto demo");
        report.push(vec![Card::new("rate", "1 Mbit/s", "")]);
        let cells = vec![Cell::from("a"), Cell::toned("b", Tone::Good)];
        report.push(Table { rows: vec![cells], ..Table::default() });
        report.push(Prose::new("p", vec![Block::Paragraph("`code`".to_owned())]));
        let page = embedded(&report.to_html(), "page");
        for (pointer, expected) in [
            ("/headline", json!("h")),
            ("/command", json!("giusto demo")),
            ("/version", json!(env!("CARGO_PKG_VERSION"))),
            ("/sections/0/kind", json!("cards")),
            ("/sections/0/content/0/value", json!("1 Mbit/s")),
            ("/sections/1/kind", json!("table")),
            ("/sections/1/content/rows/0", json!([{"text": "a"}, {"text": "b", "tone": "good"}])),
            ("/sections/2/kind", json!("prose")),
            ("/sections/2/content/blocks/0", json!({"kind": "paragraph", "content": "`code`"})),
        ] {
            assert_eq!(page.pointer(pointer), Some(&expected), "{pointer}");
        }
    }

    #[test]
    fn no_text_can_leave_its_element() {
        let hostile = "</script><!-- <script>alert(1)</script>";
        let mut report =
            Report::new(hostile, hostile).with_command(hostile).with_record(json!({ hostile: hostile }));
        report.push(Prose::new(hostile, vec![Block::Code(hostile.to_owned())]));
        let html = report.to_html();
        assert!(!html.contains("<script>alert"));
        assert!(html.contains("<title>&lt;/script&gt;&lt;!-- &lt;script&gt;"));
        assert_eq!(embedded(&html, "page")["title"], hostile);
        assert_eq!(embedded(&html, "record")[hostile], hostile);
        assert_eq!(html.matches("<script").count(), 3);
    }

    #[test]
    fn a_page_requests_nothing_and_forbids_requests() {
        let mut report = Report::new("t", "h");
        report.push(Chart::new("c", "").with_series(Series::line("l", vec![(0.0, 1.0)])));
        let html = report.to_html();
        let markup = markup(&html);
        for forbidden in ["http://", "https://", "src=", "<link", "<img", "<iframe", "@import", "url("] {
            assert!(!markup.contains(forbidden), "the page contains {forbidden}");
        }
        assert!(markup.contains("default-src 'none'"));
        assert!(html.len() < 700_000, "{} B", html.len());
        // Only pages with charts carry the library of charts.
        let library = "id=\"chart-library\"";
        assert!(html.contains(library) && !Report::new("t", "h").to_html().contains(library));
    }

    #[test]
    fn base64_of_rfc_4648() {
        // RFC 4648 §10, and all digits.
        let texts = ["", "f", "fo", "foo", "foob", "foobar"].map(|plain| base64(plain.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmFy"]);
        assert_eq!(base64(&[0xfb, 0xef, 0xff, 0x00]), "++//AA==");
    }

    #[test]
    fn a_page_with_an_engine_may_start_it_and_request_nothing() {
        let more = More { scripts: &["start();"], engine: Some(b"foob"), ..More::default() };
        let html = page(&Report::new("t", "h"), more);
        assert!(html.contains("<script type=\"text/plain\" id=\"engine\">Zm9vYg==</script>"));
        let policy = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:;";
        assert!(html.contains(policy));
        assert!(html.contains("start();</script>"));
        assert!(!Report::new("t", "h").to_html().contains("wasm"));
    }
}
