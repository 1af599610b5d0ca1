package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/approval"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/pki"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/backoff"
)

const (
	pkiAt = stateAt + "/pki"
	// adminAt is the kubeconfig of the cluster's owner.
	adminAt = "/etc/kubernetes/admin.conf"
	// renewEvery is how often the ages of certificates are looked at.
	renewEvery = 10 * time.Minute
	// retryPause is between attempts at something that will come.
	retryPause = time.Second
	// kubeServer is the control plane's program, and serverStop how long it has to end, etcd last.
	kubeServer = "kube-server"
	serverStop = 12 * time.Second
)

// earliest is a time that has passed: a machine whose clock is behind would make authorities that end too early.
func earliest() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }

// control runs the control plane, and then the machine as a worker of it.
func (m *machine) control(ctx context.Context) error {
	for time.Now().Before(earliest()) {
		m.status.set("the clock is at %s: waiting for the right time", time.Now().UTC().Format(time.DateTime))
		<-time.After(retryPause)
	}
	m.status.set("starting the control plane")
	plane, err := m.openPlane()
	if err != nil {
		return err
	}
	if _, err := plane.ensure(); err != nil {
		if !plane.complete() {
			return err
		}
		say("cannot renew the control plane's certificates, which are valid still: %v", err)
	}
	if err := checkVersion(m.image[kubernetesVersion]); err != nil {
		return err
	}
	if err := writeJSON(plane.files.Authentication, components.Authentication()); err != nil {
		return err
	}
	config := configAt + "/kube-server.json"
	if err := writeJSON(config, plane.files.Config()); err != nil {
		return err
	}
	server, err := m.runner.Start(service.Spec{Name: kubeServer, Command: []string{"/usr/bin/kube-server", config}, StopTime: serverStop})
	if err != nil {
		return err
	}
	go plane.renew(server)
	admin, err := kubeapi.New(kubeapi.Config{Server: plane.local, CA: plane.cluster.Certificate(), Certificate: pairOf(plane.files.Store.Path(components.Admin))})
	if err != nil {
		return err
	}
	token, err := cluster.Derive(m.data.Croft.Secret, m.data.Croft.Address)
	if err != nil {
		return err
	}
	objects, err := components.Joining(token, plane.public, plane.cluster.Certificate())
	if err != nil {
		return err
	}
	m.until(ctx, "the control plane doesn't answer yet", func() error { return unready(admin.Get(ctx, "/readyz", nil)) })
	say("the API server is ready, %.1f s after the kernel's start", guest.UptimeSeconds())
	if err := replaceFile(versionAt, []byte(m.image[kubernetesVersion]), 0o600); err != nil {
		say("cannot note the version of Kubernetes: %v", err)
	}
	// Nothing of the machine waits for these: a webhook of the user's may have to run here before an object is accepted.
	for _, o := range append(objects, components.DNS(m.image["COREDNS_IMAGE"])...) {
		go apply(ctx, admin, o)
	}
	go newApprover(plane.known, admin).follow(ctx)
	own := plane.files.Store.Path(components.Kubelet)
	return m.join(ctx, joined{Server: plane.public, CA: plane.cluster.Certificate()}, identity{certificate: own, marks: admin})
}

// pairOf reads a certificate and its key, which are in one file, for each connection: it may be another one then.
func pairOf(path string) func() (*tls.Certificate, error) {
	return func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(path, path)
		return &c, err
	}
}

// apply makes an object, and tries again while it can't.
func apply(ctx context.Context, admin *kubeapi.Client, o components.Object) {
	pause := backoff.Backoff{Base: retryPause, Max: time.Minute}
	for failures := 1; ; failures++ {
		err := admin.Apply(ctx, o.Path, o.Body)
		if err == nil {
			return
		}
		if failures == 10 {
			say("cannot make %s: %v; it is tried again", o.Path, err)
		}
		<-time.After(pause.Delay(failures))
	}
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
	// known is what requests for certificates are checked against, but for the other machines.
	known approval.Cluster
}

func (m *machine) openPlane() (*plane, error) {
	for _, folder := range []string{pkiAt, configAt + "/kubeconfigs", "/etc/kubernetes", filepath.Dir(components.KubeletKubeconfig)} {
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
	p.known = approval.Cluster{
		Control: approval.Machine{Name: m.name, Addresses: []string{m.data.Croft.Address}, Ready: true}, Joining: components.Bootstrappers,
		Reserved: []netip.Prefix{netip.MustParsePrefix(cluster.Pods), netip.MustParsePrefix(cluster.Services)},
		Names:    p.certs[components.ClusterCA][components.APIServer].DNS,
	}
	return p, nil
}

// ensure makes the certificates that are missing or old, and the kubeconfigs with them. It reports whether it made any.
func (p *plane) ensure() (changed bool, failed error) {
	store := p.files.Store
	failed = store.EnsureKey(components.ServiceAccounts)
	for authority, names := range p.certs {
		by := p.authority(authority)
		for name, n := range names {
			made, err := by.Ensure(name, n)
			changed, failed = changed || made, errors.Join(failed, err)
		}
	}
	for name, path := range p.kubeconfigs() {
		server := p.local
		if name == components.Admin || name == components.Kubelet {
			server = p.public
		}
		certificate, key, err := store.Read(name)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		text, err := cluster.NewKubeconfig(server, p.cluster.Certificate(), &cluster.Identity{Certificate: certificate, Key: key}).Encode()
		if err == nil {
			err = replaceFile(path, text, 0o600)
		}
		failed = errors.Join(failed, err)
	}
	return changed, failed
}

func (p *plane) authority(name string) *pki.Authority {
	if name == components.FrontProxyCA {
		return p.front
	}
	return p.cluster
}

// kubeconfigs are the paths of those files by the certificates that are in them.
func (p *plane) kubeconfigs() map[string]string {
	return map[string]string{
		components.Admin:             adminAt,
		components.ControllerManager: p.files.Kubeconfigs + "/" + components.ControllerManager + ".conf",
		components.Scheduler:         p.files.Kubeconfigs + "/" + components.Scheduler + ".conf",
		components.Kubelet:           components.KubeletKubeconfig,
	}
}

// complete reports whether all files are there that the control plane needs, and no certificate has ended.
func (p *plane) complete() bool {
	paths := append(slices.Collect(maps.Values(p.kubeconfigs())), p.files.Store.Path(components.ServiceAccounts))
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	for authority, names := range p.certs {
		for name := range names {
			if !p.authority(authority).Valid(name) {
				return false
			}
		}
	}
	return true
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
