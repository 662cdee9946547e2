//! Histograms of a run as text.

use crate::{
    measured::result::{HistogramClass, Histograms},
    view::format::{count, time_us},
};

/// A bar for each class of each histogram. Lines have at most 80 characters.
pub fn text(histograms: &Histograms) -> String {
    let parts = histograms.all().map(|(name, classes)| format!("{name}\n{}", bars(classes)));
    parts.collect::<Vec<_>>().join("\n")
}

fn bars(classes: &[HistogramClass]) -> String {
    const WIDTH: f64 = 40.0;
    let largest = classes.iter().map(|class| class.count).max().unwrap_or(0).max(1);
    let line = |class: &HistogramClass| {
        // What is there can be seen.
        let length = (class.count as f64 / largest as f64 * WIDTH).ceil() as usize;
        let range = format!("{} to {}", time_us(class.from), time_us(class.below));
        format!("{range:>20} {:>11} {}", count(class.count), "#".repeat(length)).trim_end().to_owned() + "\n"
    };
    classes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_the_fullest_class_and_one_value_can_be_seen() {
        let class = |from, below, count| HistogramClass { from, below, count };
        let classes = vec![class(1.0, 2.0, 1), class(2.0, 5.0, 0), class(5.0, 10.0, 12_345)];
        let text = text(&Histograms { gap_error_us: Some(classes), ..Histograms::default() });
        let bars: Vec<usize> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [0, 1, 0, 40]);
        assert!(text.starts_with("gap error\n") && text.contains("12,345"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
