//! Instances of generic functions, compiled once in the workspace.

/// Compiles functions for both element types with the crate that names them here.
///
/// The compiler shares an instance of a generic function between crates if the function is `#[inline(never)]`
/// and a crate below has the instance already; all other instances are compiled again in every program. The
/// functions to name here are entries to much code, called per message or per call that waits: the engine,
/// the simulated cluster and the node then cost a program no time to compile. Functions named here that are
/// inlined instead keep what they call from being compiled again.
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
