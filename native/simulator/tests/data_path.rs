//! Runs of the data path: seeds that pass, the same run from the same seed, and planted faults that are found.

use pybroker_simulator::{
    DATA_PATH_STEPS, DataCoverage, PlantedFault, run_data_path, silence_panics,
};

fn runs(seeds: std::ops::Range<u64>) -> DataCoverage {
    let mut total = DataCoverage::default();
    for seed in seeds {
        match run_data_path(seed, DATA_PATH_STEPS, None) {
            Ok(coverage) => total.add(&coverage),
            Err(problem) => panic!("seed {seed}: {problem}"),
        }
    }
    total
}

#[test]
fn acknowledged_records_stay() {
    let total = runs(1..61);
    assert!(total.acknowledged > 500, "{total:?}");
    assert!(total.truncations > 100, "{total:?}");
}

#[test]
fn same_seed_is_the_same_run() {
    assert_eq!(
        run_data_path(7, DATA_PATH_STEPS, None),
        run_data_path(7, DATA_PATH_STEPS, None)
    );
}

#[test]
fn planted_faults_are_found() {
    silence_panics();
    for &fault in PlantedFault::ALL {
        let found =
            (1..200).find(|&seed| run_data_path(seed, DATA_PATH_STEPS, Some(fault)).is_err());
        assert!(found.is_some(), "{fault:?}");
    }
}

#[test]
#[ignore = "minutes"]
fn acknowledged_records_stay_in_many_runs() {
    println!("{:?}", runs(1_000..5_000));
}
