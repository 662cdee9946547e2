use super::*;

#[test]
fn print_thresholds() {
    for loss in [0.0, 0.5, 1.0] {
        let model = LinkModel::with_loss(loss);
        for re in [120 * 6, 140 * 6, 120 * 50] {
            let t: Vec<String> = CQI
                .iter()
                .map(|cqi| {
                    let coded = re * cqi.modulation.bits();
                    let payload = (coded * u32::from(cqi.rate_1024)) >> 10;
                    format!("{:.2}", model.threshold_db(cqi.modulation, payload, coded))
                })
                .collect();
            eprintln!("{loss} {re} {}", t.join(" "));
        }
    }
}
