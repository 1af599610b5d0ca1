package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
)

const (
	// joinedAt has the control plane that the machine has joined.
	joinedAt    = stateAt + "/joined.json"
	clusterCAAt = stateAt + "/cluster-ca.crt"
	// bootstrapAt is the kubeconfig with the bootstrap token, proxyAt that of kube-proxy.
	bootstrapAt = configAt + "/bootstrap.conf"
	proxyAt     = configAt + "/kube-proxy.conf"
	// kubeletAt and proxyConfigAt are configurations.
	kubeletAt     = configAt + "/kubelet.json"
	proxyConfigAt = configAt + "/kube-proxy.json"
)

// certificateLooks is after how many looks for its first certificate a machine looks whether the control plane is another one.
const certificateLooks = 10

// joined is a control plane and its certificate authority, in PEM.
type joined struct {
	Server string
	CA     []byte
}

// identity is how a machine comes to its first certificate.
type identity struct {
	// token is a worker's bootstrap token.
	token cluster.Token
	// certificate is the file of the control plane's own, marks a client that may label its node; empty on a worker.
	certificate string
	marks       *kubeapi.Client
}

// worker joins the control plane. One that has joined needs the signed cluster-info only to see that the control plane is another
// one, at the same address and with the same secret: then it joins anew.
func (m *machine) worker(ctx context.Context) error {
	tokens := map[string]cluster.Token{}
	for _, master := range m.data.Croft.Masters {
		token, err := cluster.Derive(m.data.Croft.Secret, master)
		if err != nil {
			return err
		}
		tokens[cluster.Server(master)] = token
	}
	to, ok := readJoined()
	token, known := tokens[to.Server]
	if ok && known {
		ca, err := fetchInfo(ctx, to.Server, token)
		if err != nil || bytes.Equal(ca, to.CA) {
			return m.join(ctx, to, identity{token: token})
		}
		say("the control plane is another one with the same secret: joining it anew")
		to.CA = ca
	} else {
		to, token = m.discover(ctx, tokens)
	}
	for _, old := range []string{components.KubeletPKI, components.KubeletKubeconfig} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	if err := writeJSON(joinedAt, to); err != nil {
		return err
	}
	return m.join(ctx, to, identity{token: token})
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
			ca, err := fetchInfo(ctx, server, tokens[server])
			if err == nil {
				say("the control plane at %s has the same secret, %.1f s after the kernel's start", master, guest.UptimeSeconds())
				return joined{Server: server, CA: ca}, tokens[server]
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
func (m *machine) join(ctx context.Context, to joined, by identity) error {
	n := components.Node{Name: m.name, Address: m.data.Croft.Address, CA: clusterCAAt, Control: m.data.Croft.Control()}
	if err := replaceFile(clusterCAAt, to.CA, 0o644); err != nil {
		return err
	}
	bootstrap, own := "", by.certificate
	if own == "" {
		bootstrap, own = bootstrapAt, components.KubeletClient
		if err := writeKubeconfig(bootstrap, to, cluster.Identity{Token: by.token.Text()}); err != nil {
			return err
		}
	}
	if err := writeKubeconfig(proxyAt, to, cluster.Identity{CertificateFile: own, KeyFile: own}); err != nil {
		return err
	}
	if err := writeJSON(kubeletAt, n.Kubelet()); err != nil {
		return err
	}
	if err := writeJSON(proxyConfigAt, n.Proxy(proxyAt)); err != nil {
		return err
	}
	m.status.set("joining %s", to.Server)
	m.until(ctx, "waiting for containerd", func() error { return containerdAnswers(ctx) })
	started := time.Now()
	command := append([]string{"/usr/bin/kube-worker", "kubelet"}, n.KubeletFlags(kubeletAt, bootstrap)...)
	kubelet, err := m.runner.Start(service.Spec{Name: "kubelet", Command: command})
	if err != nil {
		return err
	}
	looks := 0
	m.until(ctx, "waiting for the machine's certificate", func() error {
		_, err := os.Stat(own)
		if !os.IsNotExist(err) {
			return err
		}
		if looks++; looks%certificateLooks == 0 {
			joinAnew(ctx, to, by)
		}
		return errors.New("the control plane has issued none yet")
	})
	say("the machine has its certificate, %.1f s after the kernel's start", guest.UptimeSeconds())
	client, err := kubeapi.New(kubeapi.Config{Server: to.Server, CA: to.CA, Certificate: pairOf(own)})
	if err != nil {
		return err
	}
	p := &podNetwork{machine: m, member: membership{kubelet: kubelet, to: to, by: by, since: started}}
	go p.keepShowing()
	p.follow(ctx, client)
	return nil
}

func writeKubeconfig(path string, to joined, by cluster.Identity) error {
	text, err := cluster.NewKubeconfig(to.Server, to.CA, &by).Encode()
	if err != nil {
		return err
	}
	return replaceFile(path, text, 0o600)
}
