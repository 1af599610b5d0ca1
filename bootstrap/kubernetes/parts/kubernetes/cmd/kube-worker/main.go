// Command kube-worker is what runs on every node of a cluster besides the container runtime: `kube-worker kubelet
// FLAGS` is the kubelet, `kube-worker proxy FLAGS` is kube-proxy. Both are Kubernetes' own commands in one binary, to
// be run as two processes: each takes the process's signals.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the clients, as Kubernetes' own commands have
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	command := choose(os.Args)
	if command == nil {
		fmt.Fprintln(os.Stderr, "usage: kube-worker kubelet|proxy FLAGS…")
		os.Exit(2)
	}
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}

// choose is the command that args[1] names, or nil.
func choose(args []string) *cobra.Command {
	if len(args) < 2 {
		return nil
	}
	switch args[1] {
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	case "proxy":
		return proxy.NewProxyCommand()
	}
	return nil
}
