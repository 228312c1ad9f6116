//! `pybroker-simulator`: runs seeds, replays one, measures, or plants faults. See `--help`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pybroker_quorum::Fault;
use pybroker_simulator::{
    Coverage, DATA_PATH_STEPS, DataCoverage, Failure, Plan, Trouble, run, run_data_path, shrink,
    silence_panics,
};

const HELP: &str = "\
Runs the quorum's state machines in a simulated world.

  --seed N           replay one run
  --minutes M        simulated minutes of a run (default 10)
  --without A,B      leave out kinds of faults
  --skip I,J         leave out single faults by index
  --trace            print every message and every change of role
  --for S            run seeds, from 1 or --from on, for S seconds
  --from N           the first of these seeds
  --planted          plant each fault in turn; each must be found within 60 s
  --fault NAME       plant one fault
  --kinds            print the kinds of faults
  --data-path        simulate replicas of a partition instead: --seed N, or --for S and --from N
";

struct Options {
    plan: Plan,
    trace: bool,
    seconds: Option<u64>,
    planted: bool,
    data_path: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match parse(&arguments) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    silence_panics();
    if options.data_path {
        return run_data_paths(&options);
    }
    if options.planted {
        return plant_all(&options.plan);
    }
    match options.seconds {
        Some(seconds) => run_seeds(&options, Duration::from_secs(seconds)),
        None => run_one(&options),
    }
}

fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options {
        plan: Plan::new(1, 10),
        trace: false,
        seconds: None,
        planted: false,
        data_path: false,
    };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{name} needs a value"));
        let number = |text: &String| {
            text.parse::<u64>()
                .map_err(|_| format!("'{text}' is no number"))
        };
        match name.as_str() {
            "--seed" | "--from" => options.plan.seed = number(value()?)?,
            "--minutes" => options.plan.minutes = number(value()?)?,
            "--for" => options.seconds = Some(number(value()?)?),
            "--trace" => options.trace = true,
            "--planted" => options.planted = true,
            "--data-path" => options.data_path = true,
            "--without" => {
                for word in value()?.split(',') {
                    let kind = Trouble::ALL.iter().find(|kind| kind.word() == word);
                    options
                        .plan
                        .without
                        .insert(*kind.ok_or(format!("no kind '{word}'"))?);
                }
            }
            "--skip" => {
                for word in value()?.split(',') {
                    options
                        .plan
                        .skipped
                        .insert(number(&word.to_owned())? as usize);
                }
            }
            "--fault" => {
                let word = value()?;
                let fault = Fault::ALL
                    .iter()
                    .find(|fault| format!("{fault:?}") == *word);
                options.plan.fault = Some(*fault.ok_or(format!("no fault '{word}'"))?);
            }
            "--kinds" => {
                Trouble::ALL.iter().for_each(|kind| println!("{kind}"));
                return Ok(None);
            }
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(Some(options))
}

fn run_one(options: &Options) -> ExitCode {
    match run(&options.plan, options.trace) {
        Ok(coverage) => {
            coverage.print();
            ExitCode::SUCCESS
        }
        Err(failed) => {
            report(&options.plan, &failed.0, !options.trace);
            ExitCode::FAILURE
        }
    }
}

fn run_seeds(options: &Options, patience: Duration) -> ExitCode {
    let started = Instant::now();
    let mut total = Coverage::default();
    let mut plan = options.plan.clone();
    while started.elapsed() < patience {
        match run(&plan, false) {
            Ok(coverage) => total.add(&coverage),
            Err(failed) => {
                report(&plan, &failed.0, true);
                return ExitCode::FAILURE;
            }
        }
        plan.seed += 1;
    }
    total.print();
    let (hours, seconds) = (total.minutes as f64 / 60.0, started.elapsed().as_secs_f64());
    let seeds = plan.seed - options.plan.seed;
    println!(
        "{seeds} seeds, {hours:.1} cluster-hours in {seconds:.0} s: {:.0} in 10 minutes",
        hours / seconds * 600.0
    );
    ExitCode::SUCCESS
}

/// Run seeds of the data path for the time, or one seed.
fn run_data_paths(options: &Options) -> ExitCode {
    let started = Instant::now();
    let patience = Duration::from_secs(options.seconds.unwrap_or(0));
    let mut total = DataCoverage::default();
    let mut seed = options.plan.seed;
    loop {
        match run_data_path(seed, DATA_PATH_STEPS, None) {
            Ok(coverage) => total.add(&coverage),
            Err(problem) => {
                println!("{problem}\nreplay: --data-path --seed {seed}");
                return ExitCode::FAILURE;
            }
        }
        seed += 1;
        if started.elapsed() >= patience {
            println!("{} seeds: {total:?}", seed - options.plan.seed);
            return ExitCode::SUCCESS;
        }
    }
}

/// Print a failure and the command that replays it.
fn report(plan: &Plan, failure: &Failure, shrinks: bool) {
    println!(
        "seed {}: {} at {} us",
        plan.seed, failure.violation, failure.at
    );
    if !shrinks {
        return;
    }
    let (smallest, failure) = shrink(plan, failure);
    let list = |words: Vec<String>, option: &str| match words.is_empty() {
        true => String::new(),
        false => format!(" {option} {}", words.join(",")),
    };
    let without = list(
        smallest.without.iter().map(Trouble::to_string).collect(),
        "--without",
    );
    let skipped = list(
        smallest.skipped.iter().map(usize::to_string).collect(),
        "--skip",
    );
    let fault = list(
        smallest
            .fault
            .iter()
            .map(|fault| format!("{fault:?}"))
            .collect(),
        "--fault",
    );
    println!("smaller: {} at {} us", failure.violation, failure.at);
    for (index, trouble) in smallest.troubles() {
        println!(
            "  fault {index}: {} at {} us for {} us",
            trouble.kind, trouble.at, trouble.lasts
        );
    }
    let (seed, minutes) = (smallest.seed, smallest.minutes);
    println!("replay: --seed {seed} --minutes {minutes}{without}{skipped}{fault} --trace");
}

fn plant_all(plan: &Plan) -> ExitCode {
    let mut missed = 0;
    for &fault in Fault::ALL {
        let (started, minutes) = (Instant::now(), plan.minutes);
        let mut plan = Plan {
            fault: Some(fault),
            ..plan.clone()
        };
        let found = loop {
            if let Err(failed) = run(&plan, false) {
                break Some(failed.0);
            }
            if started.elapsed() > Duration::from_secs(60) {
                break None;
            }
            plan.seed += 1;
            // Short runs find faults in the first elections sooner.
            plan.minutes = [minutes, 1][plan.seed as usize % 2];
        };
        let seconds = started.elapsed().as_secs_f64();
        match found {
            // The run must detect the planted fault and no other.
            Some(_)
                if run(
                    &Plan {
                        fault: None,
                        ..plan.clone()
                    },
                    false,
                )
                .is_err() =>
            {
                missed += 1;
                println!("{fault:?}: seed {} fails without it", plan.seed);
            }
            Some(failure) => {
                println!(
                    "{fault:?}: {seconds:.2} s, seed {}, {}",
                    plan.seed, failure.violation.invariant
                );
            }
            None => {
                missed += 1;
                println!("{fault:?}: NOT FOUND in {seconds:.0} s");
            }
        }
    }
    println!("{} faults planted, {missed} not found", Fault::ALL.len());
    ExitCode::from(u8::from(missed > 0))
}
