package clusters

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/sshclient"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/workload"
)

// asked is the data of a control plane's reservation.
var asked = `{"size":2,"network_id":"net1","ip":"10.1.2.10","cluster_secret":"` + strings.Repeat("00", 50) + `","master_ips":[],"ssh_keys":[]}`

// seen is an observation of a reservation with that data, and the node's answer.
func seen(data, answer string, change func(*deploy.Observation)) deploy.Observation {
	o := deploy.Observation{
		Document: &workload.Reservation{Type: workload.TypeKubernetes, Data: json.RawMessage(data)},
		Verdict:  verdict.Verdict{State: workload.StateOK, Verified: true, Data: json.RawMessage(answer)},
	}
	if change != nil {
		change(&o)
	}
	return o
}

func TestControlPlane(t *testing.T) {
	const ok = `{"id":"7-1","ip":"10.1.2.10"}`
	state := func(s workload.State) func(*deploy.Observation) { return func(o *deploy.Observation) { o.State = s } }
	for name, test := range map[string]struct {
		seen deploy.Observation
		want string
	}{
		"done":                {seen(asked, ok, nil), ""},
		"the explorer's away": {seen(asked, "", func(o *deploy.Observation) { o.Verdict = verdict.Verdict{State: verdict.Unseen} }), ""},
		"another type":        {seen(asked, ok, func(o *deploy.Observation) { o.Document.Type = workload.TypeVolume }), "it is of type volume, it must be of type kubernetes"},
		"a worker": {seen(strings.Replace(asked, `"master_ips":[]`, `"master_ips":["10.1.2.10","10.1.3.10"]`, 1), ok, nil),
			"it is a worker; its control plane, which has one, is the VM with the address 10.1.2.10 or 10.1.3.10"},
		"other data":      {seen(`{}`, ok, nil), "cannot get the kubeconfig of master"},
		"pending":         {seen(asked, "", state(verdict.Pending)), "its node hasn't made it yet; `croft status master` shows"},
		"an error":        {seen(asked, "null", func(o *deploy.Observation) { o.State, o.Error = workload.StateError, "no room" }), "its node answered with an error: no room"},
		"deleting":        {seen(asked, ok, state(verdict.Deleting)), "its state is deleting"},
		"deleted":         {seen(asked, "null", state(workload.StateDeleted)), "its state is deleted"},
		"lost":            {seen(asked, "", state(verdict.Lost)), "its state is lost"},
		"unverified":      {seen(asked, ok, func(o *deploy.Observation) { o.Verified = false }), "its state is ok"},
		"stale":           {seen(asked, ok, func(o *deploy.Observation) { o.Problem = "a newer result" }), "can't be believed: a newer result"},
		"another address": {seen(asked, `{"id":"7-1","ip":"10.1.2.11"}`, nil), "the node answers that it has the address 10.1.2.11, the reservation is for 10.1.2.10"},
		"no address":      {seen(asked, `{"id":"7-1","ip":"-oProxyCommand=evil"}`, nil), "the node's answer has no address"},
		"no data":         {seen(asked, `null`, nil), "the node's answer has no address"},
		"other answer":    {seen(asked, `"x"`, nil), "the node's answer can't be read"},
	} {
		m, err := controlPlane(workspace.Target{Name: "master", ID: "7-01", Node: "n"}, test.seen)
		switch {
		case test.want == "" && (err != nil || m.name() != "croft-7-1" || m.address.String() != "10.1.2.10" || m.network != "net1" || m.node != "n" || m.label != "master"):
			t.Errorf("%s: got %+v, %v", name, m, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	if _, err := controlPlane(workspace.Target{ID: "7-1 evil"}, seen(asked, ok, nil)); err == nil {
		t.Error("an ID that isn't one is taken")
	}
}

func TestExplain(t *testing.T) {
	m := machine{label: "master", network: "net1"}
	for cause, want := range map[sshclient.Cause]string{
		sshclient.Unreachable:   "no answer; this computer must be in the network net1: `croft network add-access net1 NAME --out FILE`",
		sshclient.Denied:        "cannot log in to master as root: no answer; it accepts the keys in ssh_keys",
		sshclient.CommandFailed: "no answer; its control plane isn't up yet, and `croft status master`",
		sshclient.WrongHost:     "isn't one that its console shows",
		sshclient.TooMuch:       "cannot use the answer of master: no answer",
	} {
		if err := m.explain(&sshclient.Failure{Cause: cause, Text: "no answer"}, nil); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", cause, err, want)
		}
	}
	other := errors.New("x")
	if err := m.explain(other, nil); !errors.Is(err, other) {
		t.Errorf("got %v", err)
	}
}
