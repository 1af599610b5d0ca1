// Command inside runs the tests of croft's modules inside a booted node, with the node's own kernel, containerd, runc and file system
// tools, in QEMU. It compiles the tests, makes a disk of them, of the sources and of the tools that they call, boots the node's image
// with that disk, and prints what go test -v prints. It needs root, to make the disk's root folder.
//
//	inside -image bin/node [-iso FILE] [-run REGEX] [PACKAGE…]
//
// PACKAGE=REGEX runs only such tests of a package, whatever -run says. Without packages it runs the tests of storage, networks and containers, and those
// that show that users can't reach each other.
//
// What goes through the machine's ports is in package wire; what runs in the node is in guest.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are the command's.
type options struct {
	// image is the folder with the kernel and the initrd, iso the medium with the slot.
	image, iso string
	// work keeps the tools' root folder; disks are made in it.
	work string
	// run and parallel are of the tests; within is for each package, all for the whole.
	run             string
	parallel, count int
	within, all     time.Duration
	// kvm has the machine's processors be the host's; else QEMU computes what they do, which is 10 to 20 times slower.
	kvm bool
	// single has one thread compute the emulated processors in turn. QEMU before 8.1 now and then executes a breakpoint that the kernel has already
	// taken out of its code where each has a thread (https://bugzilla.redhat.com/show_bug.cgi?id=2216496, "int3"): Linux 6.12 panics at each boot.
	single bool
	// memory is the machine's, in MiB; parameters are added to the kernel's.
	memory     int
	parameters string
	packages   []string
}

// isolation are the tests of cmd/croftd with users that try to reach each other, the node and the farm's network.
const isolation = "^Test(Isolation|OthersRulesAreLeftAlone|ARouterStaysOne)$"

func main() {
	o := options{}
	flag.StringVar(&o.image, "image", "bin/node", "the folder of the node's image")
	flag.StringVar(&o.iso, "iso", "", "the boot medium with the image (IMAGE/croft.iso)")
	flag.StringVar(&o.work, "work", "bin/inside", "a folder for disks, and for the tools, which are kept")
	flag.StringVar(&o.run, "run", "", "run only the tests with such names, as go test -run")
	flag.IntVar(&o.parallel, "parallel", 4, "how many tests of a package run at once, as go test -parallel")
	flag.IntVar(&o.count, "count", 1, "how often each test runs, as go test -count")
	flag.DurationVar(&o.within, "timeout", time.Hour, "how long a package's tests may take")
	flag.DurationVar(&o.all, "all", 4*time.Hour, "how long everything may take")
	flag.IntVar(&o.memory, "memory", 4096, "the machine's memory in MiB")
	flag.BoolVar(&o.kvm, "kvm", false, "use KVM")
	flag.BoolVar(&o.single, "single", false, "have one thread emulate all processors: twice as slow, but needed for newer kernels by a QEMU before 8.1")
	flag.StringVar(&o.parameters, "append", "", "further parameters of the kernel")
	flag.Parse()
	o.packages = flag.Args()
	if len(o.packages) == 0 {
		o.packages = []string{"./modules/storage/...", "./modules/network/...", "./modules/container/...", "./cmd/croftd=" + isolation}
	}
	if o.iso == "" {
		o.iso = filepath.Join(o.image, "croft.iso")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.all)
	defer cancel()
	if err := test(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "inside:", err)
		os.Exit(1)
	}
}

// test makes the disks, boots the node, and prints what its tests print.
func test(ctx context.Context, o options) error {
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.work, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	if err := makeDisks(ctx, o, dir); err != nil {
		return err
	}
	say("the disks are made after %s", time.Since(began).Round(time.Second))
	return boot(ctx, o, dir)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "inside: "+format+"\n", args...) }
