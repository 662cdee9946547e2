//! Figures for print: a chart that a page has drawn, as PDF or as SVG that needs no font.
//!
//! The fonts are those of this machine. A PDF embeds what it uses of them, and its text can be selected; an SVG holds the outlines of
//! its letters, so that it looks the same everywhere.

use std::sync::{Arc, OnceLock};

use svg2pdf::{
    ConversionOptions, PageOptions,
    usvg::{Options, Tree, WriteOptions, fontdb::Database},
};

/// The families that stand for `sans-serif`, the preferred one first.
const SANS_SERIF: [&str; 5] = ["Liberation Sans", "Arial", "Helvetica", "DejaVu Sans", "Noto Sans"];

/// Units of an SVG in an inch (CSS Values and Units, §6.2).
const DPI: f32 = 96.0;

/// Elements within each other: the parser calls itself for each level, and the drawings of a page have a dozen.
const MAX_DEPTH: usize = 200;

/// A figure that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// The drawing is no SVG.
    #[error("the drawing cannot be read: {0}")]
    Svg(#[from] svg2pdf::usvg::Error),
    /// The drawing would exhaust the stack of its parser.
    #[error(
        "the drawing cannot be read: it has more than {MAX_DEPTH} elements within each other, or a document type"
    )]
    TooDeep,
    /// The drawing has something that a PDF cannot hold.
    #[error("the figure cannot be written: {0}: save it as SVG")]
    Pdf(String),
    /// There is nothing to write letters with.
    #[error(
        "this machine has no font for the text of the figure: install one, such as the package fonts-liberation"
    )]
    NoFont,
}

/// The drawing as a PDF of one page with the size of the drawing.
///
/// # Errors
///
/// [`FigureError`] names the cause.
pub fn pdf(svg: &str) -> Result<Vec<u8>, FigureError> {
    let page = PageOptions { dpi: DPI };
    svg2pdf::to_pdf(&tree(svg)?, ConversionOptions::default(), page)
        .map_err(|error| FigureError::Pdf(error.to_string()))
}

/// The drawing with its text as outlines.
///
/// # Errors
///
/// [`FigureError`] names the cause.
pub fn outlined(svg: &str) -> Result<String, FigureError> {
    let options =
        WriteOptions { coordinates_precision: 3, transforms_precision: 5, ..WriteOptions::default() };
    Ok(tree(svg)?.to_string(&options))
}

fn tree(svg: &str) -> Result<Tree, FigureError> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    if is_too_deep(svg) {
        return Err(FigureError::TooDeep);
    }
    let fonts = FONTS.get_or_init(|| {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        let has =
            |family: &&&str| fonts.faces().any(|face| face.families.iter().any(|(name, _)| name == **family));
        if let Some(family) = SANS_SERIF.iter().find(has) {
            fonts.set_sans_serif_family(*family);
        }
        Arc::new(fonts)
    });
    if fonts.is_empty() {
        return Err(FigureError::NoFont);
    }
    // Nothing is read from files: a drawing that refers to one is drawn without it.
    let mut options =
        Options { fontdb: Arc::clone(fonts), font_family: "sans-serif".to_owned(), ..Options::default() };
    options.image_href_resolver.resolve_string = Box::new(|_, _| None);
    Ok(Tree::from_str(svg, &options)?)
}

/// Whether elements are nested too deeply, or could be by the entities of a document type.
fn is_too_deep(svg: &str) -> bool {
    let (mut depth, mut rest) = (0_usize, svg);
    while let Some((_, markup)) = rest.split_once('<') {
        let after = |end: &str| markup.split_once(end).map_or("", |(_, after)| after);
        rest = if markup.starts_with("!--") {
            after("-->")
        } else if markup.starts_with("![CDATA[") {
            after("]]>")
        } else if markup.starts_with('!') {
            return true;
        } else if markup.starts_with('?') {
            after("?>")
        } else if markup.starts_with('/') {
            depth = depth.saturating_sub(1);
            after(">")
        } else {
            // A value between quotes may have this sign.
            let mut quote = None;
            let end = markup.find(|sign: char| {
                match quote {
                    Some(open) if sign == open => quote = None,
                    None if sign == '"' || sign == '\'' => quote = Some(sign),
                    _ => {}
                }
                quote.is_none() && sign == '>'
            });
            let Some((tag, after)) = end.and_then(|end| markup.split_at_checked(end)) else { return false };
            depth += usize::from(!tag.ends_with('/'));
            after
        };
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="192" height="96">
        <rect width="10" height="10" fill="#1f78b4"/><text x="5" y="50" font-family="sans-serif">rate (Mbit/s)</text></svg>"##;

    #[test]
    fn a_pdf_has_the_size_of_the_drawing_and_its_font() {
        let pdf = match pdf(DRAWING) {
            Err(FigureError::NoFont) => return,
            other => other.unwrap(),
        };
        let text = String::from_utf8_lossy(&pdf);
        assert!(text.starts_with("%PDF-1."));
        assert!(text.contains("/MediaBox [0 0 144 72]"), "{text}");
        assert!(text.contains("/FontFile") && text.contains("/ToUnicode"));
    }

    #[test]
    fn an_outlined_drawing_has_no_text_left() {
        let svg = match outlined(DRAWING) {
            Err(FigureError::NoFont) => return,
            other => other.unwrap(),
        };
        assert!(svg.contains("<path") && !svg.contains("<text"), "{svg}");
        assert!(svg.len() < 20_000);
    }

    #[test]
    fn elements_within_each_other_are_bounded() {
        let nested = |open: &str, levels: usize| {
            let (open, close) = (open.repeat(levels), "</g>".repeat(levels));
            format!("<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\">{open}{close}</svg>")
        };
        for open in
            ["<g>", "<g><!--</g>-->", "<g><![CDATA[</g>]]>", "<g id='</g>'>", "<g id=\"/\">", "<g><a/>"]
        {
            assert!(is_too_deep(&nested(open, MAX_DEPTH)), "{open}");
            assert!(!is_too_deep(&nested(open, MAX_DEPTH - 1)), "{open}");
        }
        let beside = "<g id='>'><rect/></g>".repeat(10 * MAX_DEPTH);
        assert!(!is_too_deep(&format!("<svg>{beside}</svg>")));
        assert!(is_too_deep("<!DOCTYPE svg [<!ENTITY a '<g>'>]><svg/>"));
        assert!(matches!(pdf(&nested("<g>", 100_000)), Err(FigureError::TooDeep)));
    }

    #[test]
    fn what_is_no_drawing_is_refused() {
        for wrong in ["", "{}", "<svg", "<html/>"] {
            let refused = [pdf(wrong).err(), outlined(wrong).err()];
            assert!(refused.iter().all(Option::is_some), "{wrong}");
        }
    }
}
