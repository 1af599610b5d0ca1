// Command demo does croft's main job in front of a person: an explorer and a
// node on this machine, signed reservations for volumes, a network, containers and
// a namespace of zdb, and some bad days. It checks every step, and leaves nothing
// behind.
//
// It is for people and for CI: the steps read like a story, and the exit
// status is 0 only if each of them held.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// step is one scene: its subject, and the code that shows and checks it.
type step struct {
	title string
	run   func(ctx context.Context, w *world) error
}

func steps() []step {
	return []step{
		{"start an explorer", startExplorer},
		{"start a node", startNode},
		{"make a user's key", makeKeys},
		{"watch the node's workloads from now on", watchState},
		{"push signed reservations; the node makes real volumes", applyVolumes},
		{"look at the volumes on the node's disk", lookAtVolumes},
		{"write past a volume's size", writePastSize},
		{"read the counters over the bus, from another process", readCounters},
		{"make a private network with croft's own commands", makeNetwork},
		{"run two containers on it; one mounts a volume and serves HTTP", runContainers},
		{"look at who uses what, and renew it", whoUsesWhat},
		{"they find each other by name", talkOnNetwork},
		{"read its logs, run a command in it, see what it uses", talkToContainer},
		{"kill its program: it is started again", killProgram},
		{"boot a virtual machine beside them, and power it off", runMachine},
		{"reserve a namespace of zdb, with a password", makeNamespace},
		{"use it from another machine, with the password and without", useNamespace},
		{"kill zdb: what it has answered is there", killZDB},
		{"remove its bridge behind the node's back", breakNetwork},
		{"stop the explorer, kill -9 the node, start the node alone", crashAlone},
		{"start the explorer again: nothing lost, nothing doubled", explorerReturns},
		{"let one reservation expire", letOneExpire},
		{"a tampered, a foreign and a replayed reservation, at the explorer", refusedByExplorer},
		{"the same, when the explorer itself lies", refusedByNode},
		{"switch its module off: it waits for the namespace", switchOff},
		{"end the namespace, signed: its zdb goes with it", leaveNamespace},
		{"look at its module: it has closed", switchedOff},
		{"end the containers and the network, signed", leaveNetwork},
		{"delete the rest, signed", deleteRest},
		{"look at what the watch has seen, and at the events", whatWasSeen},
		{"take the machine back: nothing is left", nothingLeft},
	}
}

func main() {
	// Its children end with the thread that started them: let that be the first,
	// which ends last. Threads that were in a network namespace end before.
	runtime.LockOSThread()
	bin := flag.String("bin", "bin", "the folder with croftd, croft and explorer")
	var k kubernetes
	flag.StringVar(&k.image, "kubernetes-image", "", "show this image of Kubernetes, a folder, instead of all else")
	s3server := flag.String("s3server", "", "show the copies of the node's store instead of all else; the program s3server")
	flag.StringVar(&k.kubectl, "kubectl", "kubectl", "the program kubectl, for that image")
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "demo: needs root: it makes a loop device and a btrfs pool")
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, *bin, &k, *s3server); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// play runs the steps and takes everything down again, whatever happened.
func play(ctx context.Context, bin string, k *kubernetes, s3server string) (err error) {
	all, limit := steps(), 5*time.Minute
	if s3server != "" {
		all = mirrorSteps()
	}
	if k.image != "" {
		all, limit = kubernetesSteps(), 15*time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := newWorld(bin)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.stage.showLogs()
		}
		if cleanErr := w.close(); err == nil {
			err = cleanErr
		}
	}()
	w.cluster, w.stage.image = k, k.image
	w.objects.program = s3server
	began := time.Now()
	for i, s := range all {
		fmt.Printf("\n[%2d/%d] %s\n", i+1, len(all), s.title)
		if err := s.run(ctx, w); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, s.title, err)
		}
	}
	fmt.Printf("\nall %d steps held, in %.1f s\n", len(all), time.Since(began).Seconds())
	return nil
}
