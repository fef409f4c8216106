//! Instances of generic functions, compiled once in the workspace.

/// Compiles the named functions for both element types, in the crate that calls this macro.
///
/// The compiler shares an instance of a generic function between crates if the function is `#[inline(never)]`
/// and a dependency already has the instance; every program compiles all other instances again. Name
/// functions that are entries to much code, and that are called per message or per call that waits. Then a
/// program spends no time on compiling the engine, the simulated cluster and the node. If a function named
/// here is inlined, at least the functions that it calls are not compiled again.
#[macro_export]
macro_rules! instances {
    ($element:ident: $($function:path as $pointer:ty),+ $(,)?) => {
        const _: () = {
            #[used]
            static INSTANCES: fn() = instances;

            fn instances() {
                of::<f32>();
                of::<f64>();
            }

            fn of<$element: $crate::Element>() {
                $(::std::hint::black_box($function as $pointer);)+
            }
        };
    };
}
