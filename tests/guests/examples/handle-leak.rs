//! Takes one handle to a host resource after the other and drops none.

/// The smallest part of WASI that hands out handles.
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, clippy::all, reason = "generated")]
mod bindings {
    mortise_plugin::wit_bindgen::generate!({
        inline: "
            package wasi:sockets@0.2.0;
            interface network { resource network; }
            interface instance-network { use network.{network}; instance-network: func() -> network; }
            world leaking { import instance-network; }
        ",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
    pub(crate) use wasi::sockets::instance_network::instance_network;
}

mortise_test_guests::misbehaving!("handle-leak", "handle_leak", leak);

fn leak(_: i64) {
    #[cfg(target_arch = "wasm32")]
    loop {
        std::mem::forget(bindings::instance_network());
    }
}
