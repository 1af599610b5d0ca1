package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/approval"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
)

const (
	requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	// decideAgain is how often refused requests are decided again: a reason passes, as that a machine which has gone has the address.
	decideAgain = 10 * time.Second
	// mostRefusals is how many refusals are on the console at a time: whoever has the cluster's secret can make requests.
	mostRefusals = 20
)

// approver decides about certificates of machines. A refused request isn't denied: it is decided again until the API server
// removes it.
type approver struct {
	// known is what requests are checked against, but for the other machines.
	known approval.Cluster
	admin *kubeapi.Client

	mu sync.Mutex
	// requests are the undecided ones, told those whose refusal is on the console.
	requests map[string]json.RawMessage
	told     map[string]bool
}

func newApprover(known approval.Cluster, admin *kubeapi.Client) *approver {
	return &approver{known: known, admin: admin, told: map[string]bool{}}
}

// follow decides requests when they come, and again, until ctx is done.
func (a *approver) follow(ctx context.Context) {
	go func() {
		for range time.Tick(decideAgain) {
			a.mu.Lock()
			a.decide(ctx) //nolint:errcheck // the API server doesn't answer: the next round asks again
			a.mu.Unlock()
		}
	}()
	for {
		err := a.admin.Watch(ctx, requestsPath, a.keep, func(all map[string]json.RawMessage) error { return a.changed(ctx, all) })
		if err != nil {
			<-time.After(2 * retryPause)
		}
	}
}

// keep keeps of pending requests what approval.Request has.
func (a *approver) keep(raw json.RawMessage) json.RawMessage {
	var r approval.Request
	if json.Unmarshal(raw, &r) != nil || !a.known.Pending(r) {
		return nil
	}
	kept, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	return kept
}

// changed is called with the pending requests of the cluster.
func (a *approver) changed(ctx context.Context, all map[string]json.RawMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = maps.Clone(all)
	maps.DeleteFunc(a.told, func(name string, _ bool) bool { return all[name] == nil })
	return a.decide(ctx)
}

// decide approves requests, or says why not. An error is of the API server; what isn't decided then is with the next call.
func (a *approver) decide(ctx context.Context) error {
	if len(a.requests) == 0 {
		return nil
	}
	now, err := a.cluster(ctx)
	if err != nil {
		return err
	}
	for name, raw := range a.requests {
		var r approval.Request
		why := json.Unmarshal(raw, &r)
		if why == nil {
			why = now.Check(r)
		}
		if why == nil {
			if why, err = a.approve(ctx, now, r.Metadata.Name); err != nil {
				return err
			}
		}
		if why == nil {
			delete(a.requests, name)
		} else if !a.told[name] && len(a.told) < mostRefusals {
			a.told[name] = true
			say("certificate %.80q isn't approved: %v", name, why)
		}
	}
	return nil
}

// cluster is the cluster with its machines.
func (a *approver) cluster(ctx context.Context) (approval.Cluster, error) {
	now := a.known
	nodes, err := a.admin.List(ctx, nodesPath, keepNode)
	if err != nil {
		return now, err
	}
	for _, raw := range nodes {
		var n nodeObject
		if json.Unmarshal(raw, &n) != nil {
			continue
		}
		m := approval.Machine{Name: n.Metadata.Name, Ready: n.ready()}
		for _, address := range n.Status.Addresses {
			m.Addresses = append(m.Addresses, address.Address)
		}
		now.Machines = append(now.Machines, m)
	}
	return now, nil
}

// approve tells the API server that a request is approved, as it is now, or says why not. One that has gone or changed is no longer
// this one.
func (a *approver) approve(ctx context.Context, now approval.Cluster, name string) (why, failed error) {
	at := requestsPath + "/" + url.PathEscape(name)
	var raw json.RawMessage
	err := a.admin.Get(ctx, at, &raw)
	if err != nil {
		return refusal(err)
	}
	var r approval.Request
	var object map[string]any
	if err := errors.Join(json.Unmarshal(raw, &r), json.Unmarshal(raw, &object)); err != nil {
		return err, nil
	}
	if !a.known.Pending(r) {
		return nil, nil
	}
	if why := now.Check(r); why != nil {
		return why, nil
	}
	object["status"] = map[string]any{"conditions": []map[string]any{{
		"type": "Approved", "status": "True", "reason": "CroftApproved", "message": "the names and addresses are the machine's",
		"lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}}}
	return refusal(a.admin.Replace(ctx, at+"/approval", object))
}

// refusal tells what the API server says about one request from its failures, which concern all.
func refusal(err error) (why, failed error) {
	var answer *kubeapi.Error
	switch {
	case err == nil, kubeapi.IsCode(err, http.StatusConflict), kubeapi.IsCode(err, http.StatusNotFound):
		return nil, nil
	case errors.As(err, &answer) && answer.Code/100 == http.StatusBadRequest/100:
		return err, nil
	}
	return nil, err
}
