package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/approval"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/pki"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/service"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	pkiAt = stateAt + "/pki"
	// adminAt is the kubeconfig of the cluster's owner.
	adminAt = "/etc/kubernetes/admin.conf"
	// renewEvery is how often the ages of certificates are looked at.
	renewEvery = 6 * time.Hour
	// retryPause is between attempts at something that will come.
	retryPause = time.Second
)

// control runs the control plane, and then the machine as a worker of it.
func (m *machine) control(ctx context.Context) error {
	m.status.set("starting the control plane")
	plane, err := m.openPlane()
	if err != nil {
		return err
	}
	if _, err := plane.ensure(); err != nil {
		return err
	}
	if err := writeJSON(plane.files.Authentication, components.Authentication()); err != nil {
		return err
	}
	config := configAt + "/kube-server.json"
	if err := writeJSON(config, plane.files.Config()); err != nil {
		return err
	}
	server, err := m.runner.Start(service.Spec{Name: "kube-server", Command: []string{"/usr/bin/kube-server", config}})
	if err != nil {
		return err
	}
	go plane.renew(server)
	admin, err := kubeapi.New(kubeapi.Config{Server: plane.local, CA: plane.cluster.Certificate(), Certificate: func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(plane.files.Store.Path(components.Admin), plane.files.Store.Path(components.Admin))
		return &c, err
	}})
	if err != nil {
		return err
	}
	token, err := cluster.Derive(m.data.Croft.Secret, m.data.Croft.Address)
	if err != nil {
		return err
	}
	m.until(ctx, "the control plane doesn't answer yet", func() error { return unready(admin.Get(ctx, "/readyz", nil)) })
	say("the API server is ready, %.1f s after the kernel's start", guest.UptimeSeconds())
	objects, err := components.Joining(token, plane.public, plane.cluster.Certificate())
	if err != nil {
		return err
	}
	for _, o := range append(objects, components.DNS(m.image["COREDNS_IMAGE"])...) {
		m.until(ctx, "setting up the cluster", func() error { return admin.Apply(ctx, o.Path, o.Body) })
	}
	go approve(ctx, admin)
	go m.markControl(ctx, admin)
	return m.join(ctx, joined{Server: plane.public, CA: plane.cluster.Certificate()}, token)
}

// unready shortens the API server's answer to those parts of it that aren't ready.
func unready(err error) error {
	var answer *kubeapi.Error
	if !errors.As(err, &answer) {
		return err
	}
	var parts []string
	for word := range strings.FieldsSeq(answer.Message) {
		if name, failed := strings.CutPrefix(word, "[-]"); failed {
			parts = append(parts, name)
		}
	}
	if len(parts) == 0 {
		return err
	}
	return fmt.Errorf("it waits for %s", strings.Join(parts, ", "))
}

// plane is a control plane's files.
type plane struct {
	files   components.Control
	cluster *pki.Authority
	front   *pki.Authority
	certs   map[string]map[string]pki.Names
	// local and public are URLs of the API server, for this machine's programs and for others.
	local, public string
}

func (m *machine) openPlane() (*plane, error) {
	for _, folder := range []string{pkiAt, configAt + "/kubeconfigs", "/etc/kubernetes"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	store := pki.Open(pkiAt, time.Now)
	address, err := netip.ParseAddr(m.data.Croft.Address)
	if err != nil {
		return nil, err
	}
	p := &plane{local: cluster.Server("127.0.0.1"), public: cluster.Server(m.data.Croft.Address), certs: components.Certificates(m.name, []netip.Addr{address})}
	if p.cluster, err = store.Authority(components.ClusterCA); err != nil {
		return nil, err
	}
	if p.front, err = store.Authority(components.FrontProxyCA); err != nil {
		return nil, err
	}
	p.files = components.Control{
		Address: m.data.Croft.Address, Store: store, CA: p.cluster.CertificatePath, FrontProxyCA: p.front.CertificatePath,
		Kubeconfigs: configAt + "/kubeconfigs", Authentication: configAt + "/authentication.json", Etcd: "/var/lib/etcd", Socket: "/run/kube-server",
	}
	return p, nil
}

// ensure makes the certificates that are missing or old, and the kubeconfigs with them. It reports whether it made any.
func (p *plane) ensure() (bool, error) {
	store := p.files.Store
	if err := store.EnsureKey(components.ServiceAccounts); err != nil {
		return false, err
	}
	changed := false
	for authority, names := range p.certs {
		by := p.cluster
		if authority == components.FrontProxyCA {
			by = p.front
		}
		for name, n := range names {
			made, err := by.Ensure(name, n)
			if err != nil {
				return changed, err
			}
			changed = changed || made
		}
	}
	for name, path := range map[string]string{
		components.Admin:             adminAt,
		components.ControllerManager: p.files.Kubeconfigs + "/" + components.ControllerManager + ".conf",
		components.Scheduler:         p.files.Kubeconfigs + "/" + components.Scheduler + ".conf",
	} {
		server := p.local
		if name == components.Admin {
			server = p.public
		}
		certificate, key, err := store.Read(name)
		if err != nil {
			return changed, err
		}
		text, err := cluster.NewKubeconfig(server, p.cluster.Certificate(), &cluster.Identity{Certificate: certificate, Key: key}).Encode()
		if err != nil {
			return changed, err
		}
		if err := atomicfile.WriteFile(path, text, 0o600); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// renew makes certificates anew before they end, and has the control plane use them.
func (p *plane) renew(server *service.Service) {
	for {
		<-time.After(renewEvery)
		changed, err := p.ensure()
		if err != nil {
			say("cannot renew the control plane's certificates: %v", err)
		}
		if changed {
			say("the control plane's certificates are new: it starts again")
			server.Restart()
		}
	}
}

// until tries something until it succeeds; what hasn't for a while is the machine's state.
func (m *machine) until(ctx context.Context, doing string, try func() error) {
	for attempts := 1; ; attempts++ {
		err := try()
		if err == nil {
			return
		}
		if attempts%10 == 0 {
			m.status.set("%s: %v", doing, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPause):
		}
	}
}

// markControl labels the machine as a control plane, which a kubelet may not do itself, once it is a node of the cluster.
func (m *machine) markControl(ctx context.Context, admin *kubeapi.Client) {
	change := map[string]any{"metadata": map[string]any{"labels": map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
	for admin.Merge(ctx, "/api/v1/nodes/"+m.name, change) != nil {
		<-time.After(2 * retryPause)
	}
}

// approve approves the certificates that kubelets' servers ask for.
func approve(ctx context.Context, admin *kubeapi.Client) {
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	refused := map[string]bool{}
	for {
		err := admin.Watch(ctx, requests, func(all map[string]json.RawMessage) error {
			for name, raw := range all {
				var r approval.Request
				if err := json.Unmarshal(raw, &r); err != nil || !r.Pending() || refused[name] {
					continue
				}
				if err := decide(ctx, admin, r, raw); err != nil {
					refused[name] = true
					say("certificate %s isn't approved: %v", r.Metadata.Name, err)
				}
			}
			return nil
		})
		if len(refused) > 1000 {
			clear(refused)
		}
		if err != nil {
			<-time.After(2 * retryPause)
		}
	}
}

func decide(ctx context.Context, admin *kubeapi.Client, r approval.Request, raw json.RawMessage) error {
	var node nodeObject
	if name := r.Machine(); name != "" {
		if err := admin.Get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
			return err
		}
	}
	var addresses []string
	for _, a := range node.Status.Addresses {
		addresses = append(addresses, a.Address)
	}
	if err := approval.Check(r, addresses); err != nil {
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	object["status"] = map[string]any{"conditions": []map[string]any{{
		"type": "Approved", "status": "True", "reason": "CroftApproved", "message": "the names and addresses are the machine's", "lastUpdateTime": now,
	}}}
	path := fmt.Sprintf("/apis/certificates.k8s.io/v1/certificatesigningrequests/%s/approval", r.Metadata.Name)
	return admin.Replace(ctx, path, object)
}
