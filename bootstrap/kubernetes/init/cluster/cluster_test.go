package cluster_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
)

const control = "10.1.2.10"

func derive(t *testing.T, secret, control string) cluster.Token {
	t.Helper()
	token, err := cluster.Derive(secret, control)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestToken(t *testing.T) {
	token := derive(t, "the cluster's secret", control)
	// All versions of the image must derive the same token.
	if want := "v99bu7.pv9nmhb6jkh25qin"; token.Text() != want {
		t.Errorf("the token is %s, want %s", token.Text(), want)
	}
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token.Text()) {
		t.Errorf("the token %s isn't Kubernetes'", token.Text())
	}
	for _, other := range []cluster.Token{derive(t, "the cluster's secret.", control), derive(t, "the cluster's secret", "10.1.2.1")} {
		if other.ID == token.ID || other.Secret == token.Secret {
			t.Errorf("another secret or control plane has token %s too", token.Text())
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", token, token, token); strings.Contains(s, token.Secret) {
		t.Errorf("a printed token shows its secret: %s", s)
	}
}

// authority is a certificate authority's certificate in PEM, or another certificate.
func authority(t *testing.T, isCA bool) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: isCA, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// sign signs a text as Kubernetes' bootstrap signer does: compact serialization without the payload.
func sign(text, algorithm, id, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(fmt.Sprintf(`{"alg":%q,"kid":%q}`, algorithm, id)))
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(header + "." + encode([]byte(text))))
	return header + ".." + encode(h.Sum(nil))
}

func encoded(t *testing.T, k cluster.Kubeconfig) string {
	t.Helper()
	text, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestInfo(t *testing.T) {
	token, ca := derive(t, "the cluster's secret", control), authority(t, true)
	text := encoded(t, cluster.NewKubeconfig(cluster.Server(control), ca, nil))
	good := map[string]string{"kubeconfig": text, "jws-kubeconfig-" + token.ID: sign(text, "HS256", token.ID, token.Secret)}
	if got, err := cluster.OpenInfo(good, token); err != nil || !bytes.Equal(got, ca) {
		t.Fatalf("signed cluster-info isn't taken: %v", err)
	}
	signed := func(text string) map[string]string {
		return map[string]string{"kubeconfig": text, "jws-kubeconfig-" + token.ID: sign(text, "HS256", token.ID, token.Secret)}
	}
	with := func(name, value string) map[string]string {
		out := maps.Clone(good)
		out[name] = value
		return out
	}
	key := "jws-kubeconfig-" + token.ID
	stranger := encoded(t, cluster.NewKubeconfig(cluster.Server(control), authority(t, true), nil))
	for name, data := range map[string]map[string]string{
		"another authority":         with("kubeconfig", stranger),
		"no signature":              {"kubeconfig": text},
		"another token's signature": {"kubeconfig": text, "jws-kubeconfig-abcdef": sign(text, "HS256", "abcdef", token.Secret)},
		"another secret":            with(key, sign(text, "HS256", token.ID, "0123456789abcdef")),
		"the empty secret":          with(key, sign(text, "HS256", token.ID, "")),
		"another algorithm":         with(key, sign(text, "none", token.ID, token.Secret)),
		"another key":               with(key, sign(text, "HS256", "abcdef", token.Secret)),
		"a signature with its text": with(key, strings.Replace(good[key], "..", "."+base64.RawURLEncoding.EncodeToString([]byte(text))+".", 1)),
		"no signature's parts":      with(key, "abc"),
		"an empty signature":        with(key, good[key][:strings.Index(good[key], "..")+2]),
		"no text":                   {key: good[key]},
		"two clusters":              signed(strings.Replace(text, `"clusters": [`, `"clusters": [{"name":"x","cluster":{"server":"","certificate-authority-data":""}},`, 1)),
		"no cluster":                signed(`{"apiVersion":"v1","kind":"Config","clusters":[],"users":[],"contexts":[],"current-context":""}`),
		"YAML":                      signed("apiVersion: v1\nkind: Config\n"),
		"a double member":           signed(strings.Replace(text, `"kind": "Config"`, `"kind": "Config", "clusters": []`, 1)),
		"a certificate of no CA":    signed(encoded(t, cluster.NewKubeconfig("https://x", authority(t, false), nil))),
		"two authorities":           signed(encoded(t, cluster.NewKubeconfig("https://x", append(authority(t, true), ca...), nil))),
		"a long text":               signed(text + strings.Repeat(" ", 64<<10)),
	} {
		if ca, err := cluster.OpenInfo(data, token); err == nil || ca != nil {
			t.Errorf("cluster-info with %s is taken: %s", name, ca)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	k := cluster.NewKubeconfig("https://10.1.2.10:6443", []byte("CA"), &cluster.Identity{Token: "a.b"})
	var got map[string]any
	if err := json.Unmarshal([]byte(encoded(t, k)), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "croft",
		"clusters": []any{map[string]any{"name": "croft", "cluster": map[string]any{"server": "https://10.1.2.10:6443", "certificate-authority-data": "Q0E="}}},
		"users":    []any{map[string]any{"name": "croft", "user": map[string]any{"token": "a.b"}}},
		"contexts": []any{map[string]any{"name": "croft", "context": map[string]any{"cluster": "croft", "user": "croft"}}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the kubeconfig is\n%v, want\n%v", got, want)
	}
}

func TestRanges(t *testing.T) {
	pods, services := netip.MustParsePrefix(cluster.Pods), netip.MustParsePrefix(cluster.Services)
	tunnels, shared := netip.MustParsePrefix("100.64.0.0/16"), netip.MustParsePrefix("100.64.0.0/10")
	if pods.Overlaps(services) || pods.Overlaps(tunnels) || services.Overlaps(tunnels) {
		t.Errorf("ranges overlap: %s, %s, %s", pods, services, tunnels)
	}
	for _, p := range []netip.Prefix{pods, services} {
		if !shared.Contains(p.Addr()) {
			t.Errorf("%s isn't of %s, which no network may use", p, shared)
		}
	}
	for _, a := range []string{cluster.APIService, cluster.DNSService} {
		if !services.Contains(netip.MustParseAddr(a)) {
			t.Errorf("%s isn't of %s", a, services)
		}
	}
}
