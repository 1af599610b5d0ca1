// Package configuration is how croft configures a containerd: its own, and that of a node that has booted from croft's image. It only makes
// the text.
package configuration

import "fmt"

// Places are where a containerd has its things.
type Places struct {
	// Root has images and all that survives a reboot, State what doesn't; Socket is where it listens, Opt a folder for programs that it
	// installs.
	Root, State, Socket, Opt string
}

// Text is the configuration of a containerd: one socket that only root opens, no files outside of its folders, no Kubernetes. A shim that doesn't
// answer within shim.load is taken for dead when containerd starts, and its container is killed: the 5 s of the default are too short on a node
// whose processors are full. containerd loads one shim after the other before it listens, so that several that hang must fit into the time
// that it has to start.
func (p Places) Text() string { return fmt.Sprintf(text, p.Root, p.State, p.Socket, p.Opt) }

const text = `version = 2
root = %q
state = %q
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.cri.v1.images",
  "io.containerd.cri.v1.runtime",
  "io.containerd.podsandbox.controller.v1.podsandbox",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]

[grpc]
  address = %q
  uid = 0
  gid = 0

[debug]
  address = ""
  level = "warn"

[metrics]
  address = ""

[timeouts]
  "io.containerd.timeout.shim.load" = "15s"
  "io.containerd.timeout.shim.cleanup" = "15s"
  "io.containerd.timeout.shim.shutdown" = "15s"
  "io.containerd.timeout.task.state" = "15s"

[plugins."io.containerd.internal.v1.opt"]
  path = %q
`
