package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/overlay"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/service"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// joinedAt has the control plane that the machine has joined.
	joinedAt    = stateAt + "/joined.json"
	clusterCAAt = stateAt + "/cluster-ca.crt"
	// bootstrapAt is the kubeconfig with the bootstrap token.
	bootstrapAt = configAt + "/bootstrap.conf"
)

// joined is a control plane and its certificate authority, in PEM.
type joined struct {
	Server string
	CA     []byte
}

// worker joins the control plane. One that has joined needs the signed cluster-info no more.
func (m *machine) worker(ctx context.Context) error {
	tokens := map[string]cluster.Token{}
	for _, master := range m.data.Croft.Masters {
		token, err := cluster.Derive(m.data.Croft.Secret, master)
		if err != nil {
			return err
		}
		tokens[master] = token
	}
	if to, ok := readJoined(); ok {
		for _, master := range m.data.Croft.Masters {
			if to.Server == cluster.Server(master) {
				return m.join(ctx, to, tokens[master])
			}
		}
	}
	to, token := m.discover(ctx, tokens)
	if err := writeJSON(joinedAt, to); err != nil {
		return err
	}
	return m.join(ctx, to, token)
}

func readJoined() (joined, bool) {
	content, err := os.ReadFile(joinedAt)
	if err != nil {
		return joined{}, false
	}
	var out joined
	return out, json.Unmarshal(content, &out) == nil
}

// discover asks the control planes, one after the other, for cluster-info, until one has it signed with the machine's secret.
func (m *machine) discover(ctx context.Context, tokens map[string]cluster.Token) (joined, cluster.Token) {
	for {
		for _, master := range m.data.Croft.Masters {
			server := cluster.Server(master)
			ca, err := fetchInfo(ctx, server, tokens[master])
			if err == nil {
				say("the control plane at %s has the same secret, %.1f s after the kernel's start", master, guest.UptimeSeconds())
				return joined{Server: server, CA: ca}, tokens[master]
			}
			m.status.set("not joined: control plane %s: %v", master, err)
		}
		<-time.After(2 * retryPause)
	}
}

func fetchInfo(ctx context.Context, server string, token cluster.Token) ([]byte, error) {
	// The server isn't authenticated: what it answers is signed with the secret.
	client, err := kubeapi.New(kubeapi.Config{Server: server})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var info struct {
		Data map[string]string `json:"data"`
	}
	if err := client.Get(ctx, components.InfoPath, &info); err != nil {
		return nil, err
	}
	return cluster.OpenInfo(info.Data, token)
}

// join runs the machine as a node of the cluster. It returns only with an error.
func (m *machine) join(ctx context.Context, to joined, token cluster.Token) error {
	n := components.Node{Name: m.name, Address: m.data.Croft.Address, CA: clusterCAAt, Control: m.data.Croft.Control()}
	if err := atomicfile.WriteFile(clusterCAAt, to.CA, 0o644); err != nil {
		return err
	}
	bootstrap, err := cluster.NewKubeconfig(to.Server, to.CA, &cluster.Identity{Token: token.Text()}).Encode()
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(bootstrapAt, bootstrap, 0o600); err != nil {
		return err
	}
	kubelet, proxy := configAt+"/kubelet.json", configAt+"/kube-proxy.json"
	if err := writeJSON(kubelet, n.Kubelet()); err != nil {
		return err
	}
	if err := writeJSON(proxy, n.Proxy()); err != nil {
		return err
	}
	m.status.set("joining %s", to.Server)
	waitForSocket(components.ContainerdSocket)
	started := time.Now().Truncate(time.Second)
	command := append([]string{"/usr/bin/kube-worker", "kubelet"}, n.KubeletFlags(kubelet, bootstrapAt)...)
	if _, err := m.runner.Start(service.Spec{Name: "kubelet", Command: command}); err != nil {
		return err
	}
	m.until(ctx, "waiting for the machine's certificate", func() error {
		_, err := os.Stat(components.KubeletClient)
		if os.IsNotExist(err) {
			return errors.New("the control plane has issued none yet")
		}
		return err
	})
	say("the machine has its certificate, %.1f s after the kernel's start", guest.UptimeSeconds())
	client, err := kubeapi.New(kubeapi.Config{Server: to.Server, CA: to.CA, Certificate: func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(components.KubeletClient, components.KubeletClient)
		return &c, err
	}})
	if err != nil {
		return err
	}
	p := &podNetwork{machine: m, proxy: proxy, since: started}
	p.follow(ctx, client)
	return nil
}

// nodeObject is a machine as the API server has it.
type nodeObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR string `json:"podCIDR"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
			// Reported is when the kubelet reported last.
			Reported time.Time `json:"lastHeartbeatTime"`
		} `json:"conditions"`
	} `json:"status"`
}

// machine is the overlay's part of it.
func (n nodeObject) machine() (overlay.Machine, error) {
	for _, a := range n.Status.Addresses {
		if a.Type == "InternalIP" {
			return overlay.ParseMachine(n.Metadata.Name, a.Address, n.Spec.PodCIDR)
		}
	}
	return overlay.Machine{}, fmt.Errorf("machine %.80q has no address", n.Metadata.Name)
}

// podNetwork is the machine's part of the pods' network.
type podNetwork struct {
	machine *machine
	// proxy is the path of kube-proxy's configuration.
	proxy string
	// self is the machine as it is set up; zero before.
	self    overlay.Machine
	proxied bool
	// since is when the kubelet was started: what it reported before was of another boot.
	since   time.Time
	failure string
}

// follow sets the pods' network up for the cluster's machines, and shows the machine's state, whenever these change.
func (p *podNetwork) follow(ctx context.Context, client *kubeapi.Client) {
	silent := 0
	for {
		client.Close()
		err := client.Watch(ctx, "/api/v1/nodes", func(all map[string]json.RawMessage) error {
			silent = 0
			return p.apply(all)
		})
		if err == nil {
			continue
		}
		// A control plane that starts again is back before long.
		if silent++; silent >= 15 {
			p.machine.status.set("the control plane doesn't answer: %v", err)
		}
		<-time.After(2 * retryPause)
	}
}

func (p *podNetwork) apply(all map[string]json.RawMessage) error {
	var machines []overlay.Machine
	var own *nodeObject
	for _, raw := range all {
		var n nodeObject
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		if n.Metadata.Name == p.machine.name {
			own = &n
		}
		// One without a range of pods gets it soon.
		if one, err := n.machine(); err == nil {
			machines = append(machines, one)
		}
	}
	if own == nil {
		p.machine.status.set("the cluster doesn't know the machine yet")
		return nil
	}
	err := p.connect(*own, machines)
	if err != nil && p.failure != err.Error() {
		say("the pods' network: %v", err)
	}
	p.failure = ""
	if err != nil {
		p.failure = err.Error()
	}
	p.show(*own)
	return nil
}

// connect sets up the machine's own part once its range of pods is known, and the way to other machines.
func (p *podNetwork) connect(own nodeObject, machines []overlay.Machine) error {
	self, err := own.machine()
	if err != nil {
		return nil //nolint:nilerr // the control plane gives the machine its range before long
	}
	if self != p.self {
		if err := p.setup(self); err != nil {
			return err
		}
		p.self = self
	}
	return overlay.Apply(overlay.Peers(self, machines, netip.MustParsePrefix(cluster.Pods)))
}

func (p *podNetwork) setup(self overlay.Machine) error {
	if err := overlay.Setup(self, p.machine.device); err != nil {
		return err
	}
	rules := exec.Command("/usr/sbin/nft", "-f", "-") //nolint:noctx // it ends by itself
	rules.Stdin = strings.NewReader(components.Masquerade())
	if out, err := rules.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot set up masquerading: %w: %s", err, oneLine(out))
	}
	// The kubelet is ready when this file is there.
	if err := writeJSON(filepath.Join(components.NetworkConfigs, "10-croft.conflist"), components.PodNetwork(self.Pods.String())); err != nil {
		return err
	}
	if p.proxied {
		return nil
	}
	_, err := p.machine.runner.Start(service.Spec{Name: "kube-proxy", Command: []string{"/usr/bin/kube-worker", "proxy", "--config=" + p.proxy}})
	p.proxied = err == nil
	return err
}

// show makes the machine's readiness in the cluster its state.
func (p *podNetwork) show(own nodeObject) {
	for _, c := range own.Status.Conditions {
		if c.Type != "Ready" || c.Reported.Before(p.since) {
			continue
		}
		switch {
		case p.failure != "":
			p.machine.status.set("the pods' network: %s", p.failure)
		case c.Status == "True":
			p.machine.status.set("ready")
		default:
			p.machine.status.set("the kubelet isn't ready: %s", c.Message)
		}
		return
	}
	p.machine.status.set("the kubelet hasn't reported yet")
}
