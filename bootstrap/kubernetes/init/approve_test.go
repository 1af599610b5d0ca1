package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/approval"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
)

// apiServer has machines, and takes approvals.
type apiServer struct {
	machines []string
	requests map[string]json.RawMessage
	approved []string
	answer   int
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		body, _ := io.ReadAll(r.Body)
		var object struct {
			Status struct{ Conditions []approval.Condition }
		}
		if json.Unmarshal(body, &object) == nil && len(object.Status.Conditions) == 1 && object.Status.Conditions[0].Type == "Approved" && s.answer == 0 {
			s.approved = append(s.approved, strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, requestsPath+"/"), "/approval"))
		}
		if s.answer != 0 {
			w.WriteHeader(s.answer)
		}
		return
	}
	if name, one := strings.CutPrefix(r.URL.Path, requestsPath+"/"); one {
		w.Write(s.requests[name])
		return
	}
	fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[%s]}`, strings.Join(s.machines, ","))
}

// machineJSON is a machine of the cluster.
func machineJSON(name, address, ready string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"addresses":[{"type":"InternalIP","address":%q}],"conditions":[{"type":"Ready","status":%q}]}}`, name, address, ready)
}

// serving is a machine's request for its server's certificate.
func serving(t *testing.T, name, address string) json.RawMessage {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.ParseIP(address)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	var r approval.Request
	r.Metadata.Name = "csr-" + name
	r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw})
	r.Spec.SignerName, r.Spec.Username = approval.Serving, "system:node:"+name
	r.Spec.Groups, r.Spec.Usages = []string{"system:nodes"}, []string{"digital signature", "server auth"}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRefusalPasses: a machine that has another's address is refused while the other is there, and approved when it has gone, without
// another request. A request that the API server refuses stops no other.
func TestRefusalPasses(t *testing.T) {
	server := &apiServer{machines: []string{machineJSON("7-2", "10.1.2.11", "True"), machineJSON("8-1", "10.1.2.11", "True"), machineJSON("9-1", "10.1.2.12", "True")}}
	http := httptest.NewServer(server)
	defer http.Close()
	admin, err := kubeapi.New(kubeapi.Config{Server: http.URL})
	if err != nil {
		t.Fatal(err)
	}
	a := newApprover(approval.Cluster{Control: approval.Machine{Name: "1-1", Addresses: []string{"10.1.2.10"}, Ready: true}}, admin)
	ctx := context.Background()
	first, second := serving(t, "8-1", "10.1.2.11"), serving(t, "9-1", "10.1.2.12")
	server.requests = map[string]json.RawMessage{"csr-8-1": first, "csr-9-1": second}
	if err := a.changed(ctx, map[string]json.RawMessage{"/csr-8-1": a.keep(first)}); err != nil || len(server.approved) != 0 {
		t.Fatalf("while the other is there: %v, %v", server.approved, err)
	}
	server.machines[0] = machineJSON("7-2", "10.1.2.11", "Unknown")
	if err := a.decide(ctx); err != nil || len(server.approved) != 1 || server.approved[0] != "csr-8-1" {
		t.Fatalf("when it has gone: %v, %v", server.approved, err)
	}
	if err := a.decide(ctx); err != nil || len(server.approved) != 1 {
		t.Errorf("again: %v, %v", server.approved, err)
	}
	server.answer = 422
	if err := a.changed(ctx, map[string]json.RawMessage{"/csr-9-1": a.keep(second)}); err != nil || len(a.requests) != 1 {
		t.Errorf("a request that the API server refuses: %v", err)
	}
	server.answer = 0
	if err := a.decide(ctx); err != nil || len(server.approved) != 2 || len(a.told) != 1 {
		t.Errorf("when it takes it: %v, %v, %v", server.approved, a.told, err)
	}
}

// TestKeptObjects: of requests and machines little is kept, however long they are.
func TestKeptObjects(t *testing.T) {
	a := newApprover(approval.Cluster{}, nil)
	if kept := a.keep(serving(t, "8-1", "10.1.2.11")); kept == nil {
		t.Error("a machine's request is left out")
	}
	for _, raw := range []string{`{"metadata":{"name":"x"},"spec":{"signerName":"another"}}`, `{"metadata":1}`} {
		if kept := a.keep(json.RawMessage(raw)); kept != nil {
			t.Errorf("of %.80s %d bytes are kept", raw, len(kept))
		}
	}
	machine := `{"metadata":{"name":"8-1","labels":{"a":"b"},"annotations":{"x":"` + strings.Repeat("x", 200<<10) + `"}},"spec":{"podCIDR":"100.96.1.0/24"},
		"status":{"addresses":[{"type":"InternalIP","address":"10.1.2.11"}],"conditions":[{"type":"Ready","status":"True","message":"` + strings.Repeat("m", 1<<20) + `"}]}}`
	kept := keepNode(json.RawMessage(machine))
	var n nodeObject
	if err := json.Unmarshal(kept, &n); err != nil || len(kept) > 2<<10 || !n.ready() || n.Spec.PodCIDR != "100.96.1.0/24" || len(n.Metadata.Labels) != 0 {
		t.Errorf("of a machine is kept %.300s, %v", kept, err)
	}
	if keepNode(json.RawMessage(`{"metadata":{"name":1}}`)) != nil {
		t.Error("what can't be read is kept")
	}
}

// TestLabels: a file system is croft's by its label, and ext4's by its magic number.
func TestLabels(t *testing.T) {
	first := make([]byte, firstBytes)
	if !isEmpty(first) || labelOf(first) != "" {
		t.Error("an empty disk has something")
	}
	copy(first[labelAt:], dataLabel)
	if isEmpty(first) || labelOf(first) != "" {
		t.Error("a label without ext4's magic number is one")
	}
	copy(first[magicAt:], magic)
	if label := labelOf(first); label != dataLabel {
		t.Errorf("the label is %q", label)
	}
}
