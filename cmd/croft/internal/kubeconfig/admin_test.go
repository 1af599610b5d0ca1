package kubeconfig_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/cmd/croft/internal/kubeconfig"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

const template = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: CA
    server: https://10.1.2.10:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: kubernetes-admin
  name: kubernetes-admin@kubernetes
current-context: kubernetes-admin@kubernetes
kind: Config
preferences: {}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: CERT
    client-key-data: KEY
`

func address() netip.Addr { return netip.MustParseAddr("10.1.2.10") }

// keyPair is a new certificate and its key, as a kubeconfig has them.
func keyPair(tb testing.TB) (certificate, key string) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "admin"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &private.PublicKey, private)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return encoded("CERTIFICATE", der), encoded("PRIVATE KEY", secret)
}

func encoded(kind string, der []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// answer is what a control plane answers.
func answer(tb testing.TB) string {
	tb.Helper()
	ca, _ := keyPair(tb)
	certificate, key := keyPair(tb)
	return strings.NewReplacer("CA\n", ca+"\n", "CERT\n", certificate+"\n", "KEY\n", key+"\n").Replace(template)
}

func TestRead(t *testing.T) {
	text := answer(t)
	a, err := kubeconfig.Read([]byte(text), address())
	if err != nil || a.Server() != "https://10.1.2.10:6443" {
		t.Fatalf("got %s, %v", a.Server(), err)
	}
	out, err := a.Named("croft-7-1").YAML()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(strings.ReplaceAll(text, "kubernetes-admin@kubernetes", "croft-7-1"), "kubernetes-admin", "croft-7-1")
	want = strings.ReplaceAll(strings.ReplaceAll(want, ": kubernetes", ": croft-7-1"), "preferences: {}\n", "")
	if got, expected := generic(t, out), generic(t, []byte(want)); !bytes.Equal(got, expected) {
		t.Errorf("got %s\nwant %s", got, expected)
	}
	// What was made can be read again, also as JSON.
	var asJSON bytes.Buffer
	if err := render.Write(&asJSON, render.JSON, a.Named("croft-7-1"), render.Rows{}); err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{out, asJSON.Bytes()} {
		if _, err := kubeconfig.Read(text, address()); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	}
	if _, err := kubeconfig.Read([]byte(strings.ReplaceAll(text, "10.1.2.10", "[fd00::1]")), netip.MustParseAddr("fd00::1")); err != nil {
		t.Error(err)
	}
}

// TestReadWhatTheImageWrites: the kubeconfig of croft's own image is one.
func TestReadWhatTheImageWrites(t *testing.T) {
	decoded := func(text string) []byte {
		out, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	ca, _ := keyPair(t)
	certificate, key := keyPair(t)
	text, err := cluster.NewKubeconfig("https://10.1.2.10:6443", decoded(ca), &cluster.Identity{Certificate: decoded(certificate), Key: decoded(key)}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	a, err := kubeconfig.Read(text, address())
	if err != nil {
		t.Fatal(err)
	}
	c := a.Named("x")
	if c.Clusters[0].Cluster.CA != ca || c.Users[0].User.Certificate != certificate || c.Users[0].User.Key != key {
		t.Errorf("got %+v of %s", c, text)
	}
}

// generic is a YAML text's meaning, as JSON.
func generic(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// TestHostileAnswers: a machine makes the user's programs run nothing, send no file, and speak with nobody else.
func TestHostileAnswers(t *testing.T) {
	text := answer(t)
	otherCertificate, otherKey := keyPair(t)
	replaced := func(old, with string) string {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("%q isn't in the answer", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	line := func(name string) string {
		t.Helper()
		at := strings.Index(text, name)
		return text[at : at+strings.Index(text[at:], "\n")]
	}
	user := "    client-certificate-data:"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":               {"", "it is empty"},
		"only a comment":        {"# nothing\n", "it is empty"},
		"another text":          {"cat: can't open '/etc/kubernetes/admin.conf'\n", "cannot use"},
		"a list":                {"- 1\n", "cannot unmarshal"},
		"an error page":         {"<html>\x1b[2J", "cannot use"},
		"not UTF-8":             {text + "# \xff\n", "isn't UTF-8"},
		"too large":             {text + "#" + strings.Repeat("x", kubeconfig.MaxSize), "more than 1048576 bytes"},
		"another kind":          {replaced("kind: Config", "kind: Secret"), `it is "Secret" of "v1"`},
		"another version":       {replaced("apiVersion: v1", "apiVersion: v2"), `it is "Config" of "v2"`},
		"two documents":         {text + "---\n" + text, "more than one document"},
		"rubbish behind":        {text + "---\n{", "more than one document"},
		"a program":             {replaced(user, "    exec: {command: sh, args: [-c, evil]}\n"+user), "field exec not found"},
		"another program":       {replaced(user, "    auth-provider: {name: gcp, config: {cmd-path: evil}}\n"+user), "field auth-provider not found"},
		"a file to send":        {replaced(user, "    tokenFile: /etc/passwd\n"+user), "field tokenFile not found"},
		"a file for a key":      {replaced(user, "    client-key: /home/me/.ssh/id\n"+user), "field client-key not found"},
		"somebody else":         {replaced(user, "    as: somebody\n"+user), "field as not found"},
		"a proxy":               {replaced("    server:", "    proxy-url: http://evil\n    server:"), "field proxy-url not found"},
		"no verification":       {replaced("    server:", "    insecure-skip-tls-verify: true\n    server:"), "field insecure-skip-tls-verify not found"},
		"another name":          {replaced("    server:", "    tls-server-name: evil\n    server:"), "field tls-server-name not found"},
		"extensions":            {text + "extensions: []\n", "field extensions not found"},
		"preferences":           {replaced("preferences: {}", "preferences: {colors: true}"), "field colors not found"},
		"another server":        {replaced("10.1.2.10:6443", "10.1.2.11:6443"), `its server is "https://10.1.2.11:6443", it must be https://10.1.2.10:6443`},
		"another port":          {replaced(":6443", ":6444"), "its server is"},
		"no TLS":                {replaced("https:", "http:"), "its server is"},
		"a path":                {replaced(":6443", ":6443/evil"), "its server is"},
		"a key twice":           {replaced("    server:", "    server: https://evil\n    server:"), "already defined"},
		"two clusters":          {replaced("clusters:\n", "clusters:\n- {name: evil, cluster: {server: 'https://10.1.2.10:6443'}}\n"), "it has 2 clusters, 1 users and 1 contexts"},
		"no user":               {text[:strings.Index(text, "users:")], "1 clusters, 0 users"},
		"another context":       {replaced("    cluster: kubernetes", "    cluster: evil"), "its context isn't"},
		"another user":          {replaced("    user: kubernetes-admin", "    user: evil"), "its context isn't"},
		"no current one":        {replaced("current-context: kubernetes-admin@kubernetes", "current-context: ''"), "its context isn't"},
		"a namespace":           {replaced("    user: kubernetes-admin", "    user: kubernetes-admin\n    namespace: evil"), "field namespace not found"},
		"an alias":              {replaced("name: kubernetes\n", "name: &a kubernetes\n"), "anchor or an alias"},
		"many aliases":          {"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "anchor or an alias"},
		"no authority":          {replaced(line("certificate-authority-data"), "certificate-authority-data: ''"), "certificate-authority-data isn't base64"},
		"no base64":             {replaced(line("client-key-data"), "client-key-data: '!'"), "client-key-data isn't base64"},
		"no certificate":        {replaced(line("certificate-authority-data"), "certificate-authority-data: AAAA"), "it isn't certificates in PEM"},
		"a key as authority":    {replaced(line("certificate-authority-data"), "certificate-authority-data: "+otherKey), "it isn't certificates in PEM"},
		"a damaged certificate": {replaced(line("certificate-authority-data"), "certificate-authority-data: "+encoded("CERTIFICATE", []byte("x"))), "certificate-authority-data: x509"},
		"another key":           {replaced(line("client-key-data"), "client-key-data: "+otherKey), "client-certificate-data and client-key-data"},
		"another certificate":   {replaced(line("client-certificate-data"), "client-certificate-data: "+otherCertificate), "client-certificate-data and client-key-data"},
		"no key":                {replaced(line("client-key-data"), "client-key-data: ''"), "client-key-data isn't base64"},
		"deep":                  {strings.Repeat("[", 100000), "cannot use"},
		"many unknown members":  {strings.Repeat("evil\x00", 3), "cannot use"},
	} {
		a, err := kubeconfig.Read([]byte(test.text), address())
		if err == nil || !strings.Contains(err.Error(), test.want) || a.Server() != "" {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if err != nil && (len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\n\x1b")) {
			t.Errorf("%s: the error is %q", name, err)
		}
	}
}

// FuzzRead: of whatever is read, the user gets the certificates and nothing else.
func FuzzRead(f *testing.F) {
	f.Add(answer(f))
	f.Add(template)
	f.Add("{apiVersion: v1, kind: Config, clusters: [{name: x, cluster: {server: 'https://10.1.2.10:6443'}}], users: [{}], contexts: [{}]}")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := kubeconfig.Read([]byte(text), address())
		if err != nil {
			if a.Server() != "" || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the error is %q", err)
			}
			return
		}
		out, err := a.Named("croft-7-1").YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := kubeconfig.Read(out, address())
		if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		second, err := again.Named("croft-7-1").YAML()
		if err != nil || !bytes.Equal(out, second) {
			t.Errorf("%s became %s, %v", out, second, err)
		}
		for _, c := range out {
			if c != '\n' && (c < ' ' || c > '~') {
				t.Fatalf("there is a byte %#x in %q", c, out)
			}
		}
	})
}
