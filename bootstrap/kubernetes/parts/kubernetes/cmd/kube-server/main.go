// Command kube-server is the control plane of a cluster in one process: etcd, the API server, the controller manager
// and the scheduler. It takes the path of a configuration file (see internal/config), prints a line on stdout when
// etcd is ready, when the API server is, and when the others have started, and logs to stderr. SIGTERM and SIGINT stop
// the parts in reverse order, etcd last. When a part returns by itself the process ends with code 1, and its last
// lines on stderr name the part and the error.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // time zones of CronJobs

	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the clients, as Kubernetes' own commands have
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"

	"github.com/croft-edge/croft/bootstrap/kubernetes/parts/kubernetes/internal/config"
	"github.com/croft-edge/croft/bootstrap/kubernetes/parts/kubernetes/internal/ready"
	"github.com/croft-edge/croft/bootstrap/kubernetes/parts/kubernetes/internal/stages"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its arguments: it returns the process's exit code.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || args[0] == "" {
		fmt.Fprintln(stderr, "usage: kube-server CONFIG.json | --version")
		return 2
	}
	if args[0] == "--version" {
		fmt.Fprintf(stdout, "Kubernetes %s\n", version.Get())
		return 0
	}
	if err := serve(args[0], stdout); err != nil {
		fmt.Fprintf(stderr, "kube-server: %v\n", err)
		return 1
	}
	return 0
}

// serve runs the parts by the configuration file at path until a signal or a failure. All flags are parsed before
// anything starts.
func serve(path string, stdout io.Writer) error {
	c, err := config.Read(path)
	if err != nil {
		return err
	}
	url, err := c.ReadyURL()
	if err != nil {
		return err
	}
	parts, err := newComponents(c)
	if err != nil {
		return err
	}
	logs.InitLogs()
	defer logs.FlushLogs()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	store := newEtcd(c.Etcd)
	return stages.Run(ctx, []stages.Stage{
		{
			Parts: []stages.Part{{Name: "etcd", Run: store.run}},
			Ready: store.wait, Said: "etcd ready", Grace: 4 * time.Second,
		},
		{
			Parts: []stages.Part{{Name: "apiserver", Run: parts.apiServer}},
			Ready: func(ctx context.Context) error { return ready.Wait(ctx, url, patience()) },
			Said:  "apiserver ready", Grace: 4 * time.Second,
		},
		{
			Parts: []stages.Part{{Name: "controller-manager", Run: parts.controllerManager}, {Name: "scheduler", Run: parts.scheduler}},
			Said:  "scheduler and controller-manager started", Grace: 3 * time.Second,
		},
	}, func(line string) { fmt.Fprintf(stdout, "kube-server: %s\n", line) })
}

// patience is long enough for a guest whose instructions are emulated on a busy machine, where 130 seconds were seen.
func patience() ready.Limits {
	return ready.Limits{Every: 500 * time.Millisecond, Answer: 10 * time.Second, All: 15 * time.Minute}
}
