package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/overlay"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// silence is how long the control plane may not answer before the machine says so: one that starts again is back sooner.
	silence = 45 * time.Second
	// gone is how long the machine may be unknown to the cluster, which knew it, before its kubelet registers it anew.
	gone = time.Minute
	// showEvery is how often the machine's state is looked at without a change of its node.
	showEvery = 5 * time.Second
)

// membership is the machine as a node of its cluster.
type membership struct {
	kubelet *service.Service
	to      joined
	by      identity
	// since is when the kubelet was started: what it reported before was of another boot.
	since time.Time
}

// started is when the kubelet was started by the clock as it is now, which may have been set since; in seconds, as kubelets report.
func (m membership) started() time.Time {
	return time.Now().Add(-time.Since(m.since)).Truncate(time.Second)
}

// podNetwork is the machine's part of the pods' network, and its state in the cluster.
type podNetwork struct {
	machine *machine
	member  membership

	mu sync.Mutex
	// own is the machine's node as it was last seen, nil when the cluster has none; missing is since when.
	own     *nodeObject
	missing time.Time
	// silent is since when the control plane doesn't answer, zero when it does; failure is why the network isn't as it should be.
	silent  time.Time
	failure error
	// self is the machine as the network is set up for it, rules are nft's; empty before.
	self    overlay.Machine
	rules   string
	proxied bool
	// reported is set once the kubelet has reported since its start.
	reported bool
}

// follow sets the pods' network up for the cluster's machines whenever these change.
func (p *podNetwork) follow(ctx context.Context, client *kubeapi.Client) {
	for {
		client.Close()
		err := client.Watch(ctx, nodesPath, keepNode, func(all map[string]json.RawMessage) error {
			p.apply(ctx, all)
			p.show()
			return nil
		})
		if err == nil {
			continue
		}
		p.unanswered(err)
		var foreign *tls.CertificateVerificationError
		if errors.As(err, &foreign) {
			joinAnew(ctx, p.member.to, p.member.by)
		}
		<-time.After(2 * retryPause)
	}
}

// unanswered notes that the control plane doesn't answer.
func (p *podNetwork) unanswered(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent.IsZero() {
		p.silent = time.Now()
	}
	if p.quiet() {
		p.machine.status.set("the control plane doesn't answer: %v", err)
	}
}

// quiet reports whether the control plane hasn't answered for long.
func (p *podNetwork) quiet() bool { return !p.silent.IsZero() && time.Since(p.silent) > silence }

// joinAnew starts the machine again if the control plane is another one with the same secret: then it joins that.
func joinAnew(ctx context.Context, to joined, by identity) {
	if by.certificate != "" {
		return // it is the control plane
	}
	if ca, err := fetchInfo(ctx, to.Server, by.token); err != nil || bytes.Equal(ca, to.CA) {
		return
	}
	say("the control plane is another one with the same secret: starting again, to join it")
	if err := guest.Stop(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		say("cannot start again: %v", err)
	}
}

// apply is called with all nodes of the cluster.
func (p *podNetwork) apply(ctx context.Context, all map[string]json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var nodes []nodeObject
	for _, raw := range all {
		var n nodeObject
		if json.Unmarshal(raw, &n) == nil { // one that can't be read is no reason to lose the others
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, byClaim)
	var machines []overlay.Machine
	var own *nodeObject
	for _, n := range nodes {
		if n.Metadata.Name == p.machine.name {
			own = &n
		}
		if one, err := n.machine(); err == nil { // one without a range of pods gets it soon
			machines = append(machines, one)
		}
	}
	p.silent = time.Time{}
	if own == nil && p.own != nil {
		p.missing = time.Now()
	}
	if p.own = own; own == nil {
		return
	}
	p.mark(ctx, *own)
	err := p.connect(*own, machines)
	if err != nil && (p.failure == nil || p.failure.Error() != err.Error()) {
		say("the pods' network: %v", err)
	}
	p.failure = err
}

// mark labels the machine as the control plane, which a kubelet may not do itself.
func (p *podNetwork) mark(ctx context.Context, own nodeObject) {
	if _, has := own.Metadata.Labels[components.ControlLabel]; has || p.member.by.marks == nil {
		return
	}
	change := map[string]any{"metadata": map[string]any{"labels": map[string]string{components.ControlLabel: ""}}}
	if err := p.member.by.marks.Merge(ctx, nodesPath+"/"+p.machine.name, change); err != nil {
		say("cannot label the machine as the control plane: %v", err)
	}
}

// connect sets up the machine's own part once its range of pods is known, and the way to other machines.
func (p *podNetwork) connect(own nodeObject, machines []overlay.Machine) error {
	self, err := own.machine()
	if err != nil {
		return nil //nolint:nilerr // the control plane gives the machine its range before long; until then the kubelet isn't ready
	}
	if self != p.self {
		if err := overlay.Setup(self, p.machine.device); err != nil {
			return err
		}
	}
	peers := overlay.Peers(self, machines, netip.MustParsePrefix(cluster.Pods))
	if err := p.setRules(peers); err != nil {
		return err
	}
	if err := overlay.Apply(peers); err != nil {
		return err
	}
	if self == p.self {
		return nil
	}
	last := components.LastOf(self.Pods, countBoot())
	if err := os.MkdirAll(filepath.Dir(components.LastAddress), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(components.LastAddress, []byte(last.String()), 0o600); err != nil {
		return err
	}
	// The kubelet is ready when this file is there.
	if err := writeJSON(filepath.Join(components.NetworkConfigs, "10-croft.conflist"), components.PodNetwork(self.Pods.String())); err != nil {
		return err
	}
	p.self = self
	if p.proxied {
		return nil
	}
	_, err = p.machine.runner.Start(service.Spec{Name: "kube-proxy", Command: []string{"/usr/bin/kube-worker", "proxy", "--config=" + proxyConfigAt}})
	p.proxied = err == nil
	return err
}

// bootsAt has the number of the machine's boots.
const bootsAt = stateAt + "/boots"

// countBoot counts a boot. Where it can't be counted, for the disk is full, the number is one by chance.
func countBoot() int {
	boots := int(guest.ReadNumber(bootsAt)) + 1
	if err := atomicfile.WriteFile(bootsAt, []byte(strconv.Itoa(boots)), 0o600); err != nil {
		return int(time.Now().UnixNano() / 1000)
	}
	return boots
}

// setRules gives nft the machine's own rules, if they have changed.
func (p *podNetwork) setRules(peers []overlay.Machine) error {
	addresses := make([]string, len(peers))
	for i, m := range peers {
		addresses[i] = m.Address.String()
	}
	slices.Sort(addresses)
	rules := components.Rules(p.machine.device, addresses)
	if rules == p.rules {
		return nil
	}
	nft := exec.Command("/usr/sbin/nft", "-f", "-") //nolint:noctx // it ends by itself
	nft.Stdin = strings.NewReader(rules)
	if out, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot set the machine's rules: %w: %s", err, oneLine(out))
	}
	p.rules = rules
	return nil
}

// keepShowing shows what changes without a change of the machine's node.
func (p *podNetwork) keepShowing() {
	for range time.Tick(showEvery) {
		p.show()
		p.mu.Lock()
		lost := p.own == nil && !p.missing.IsZero() && time.Since(p.missing) > gone && p.silent.IsZero()
		if lost {
			p.missing = time.Now()
		}
		p.mu.Unlock()
		if lost {
			say("the cluster has lost the machine's node: its kubelet registers it again")
			p.member.kubelet.Restart()
		}
	}
}

// show makes the machine's readiness in the cluster its state.
func (p *podNetwork) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet() {
		return // unanswered says why
	}
	switch own := p.own; {
	case own == nil:
		p.machine.status.set("the cluster doesn't know the machine yet")
	case p.failure != nil:
		p.machine.status.set("the pods' network: %v", p.failure)
	case !p.hasReported(*own):
		p.machine.status.set("the kubelet hasn't reported yet")
	case !own.ready():
		p.machine.status.set("the kubelet isn't ready: %s", own.condition().Message)
	case !p.machine.imported.Load():
		p.machine.status.set("importing container images")
	default:
		if err := proxyHealth(); err != nil {
			p.machine.status.set("services don't work: %v", err)
			return
		}
		p.machine.status.set("ready")
	}
}

// hasReported reports whether the kubelet has reported since its start. Once is enough: a clock that is set later changes nothing.
func (p *podNetwork) hasReported(own nodeObject) bool {
	c := own.condition()
	p.reported = c != nil && (p.reported || c.reportedSince(p.member.started()))
	return p.reported
}

// proxyHealth asks kube-proxy whether the rules of services are set.
func proxyHealth() error {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get("http://" + components.ProxyHealth + "/healthz") //nolint:noctx // it has a timeout
	if err != nil {
		return fmt.Errorf("kube-proxy doesn't answer yet")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("kube-proxy hasn't set their rules: its answer is %s", answer.Status)
	}
	return nil
}
