// Package openapitest validates every answer of the explorer in a test against the OpenAPI document
// that the explorer serves. It is installed in a test's HTTP client, so that no test can forget it.
package openapitest

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/errors"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is an OpenAPI document whose schemas are each compiled once.
type Document struct {
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
}

const location = "https://explorer.test/openapi.json"

// Load parses the document, as JSON.
func Load(document []byte) (*Document, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the OpenAPI document")
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(location, parsed); err != nil {
		return nil, errors.Wrap(err, "cannot read the OpenAPI document")
	}
	doc, ok := parsed.(map[string]any)
	if !ok {
		return nil, errors.New("cannot read the OpenAPI document: it isn't an object")
	}
	return &Document{doc: doc, compiler: compiler, schemas: map[string]*jsonschema.Schema{}}, nil
}

// Transport validates the traffic through it. Requests that the explorer accepts are validated too: the
// document must not allow less than the explorer.
type Transport struct {
	*Document
	// Inner sends the requests (nil: http.DefaultTransport).
	Inner http.RoundTripper

	t testing.TB

	mu   sync.Mutex
	seen map[string]bool
}

// Transport makes a Transport that reports its findings as t's errors.
func (d *Document) Transport(t testing.TB) *Transport {
	return &Transport{Document: d, t: t, seen: map[string]bool{}}
}

// Seen reports whether an answer of that operation and status was received, as in "GET /nodes 200".
func (c *Transport) Seen(operation string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[operation]
}

// Operations are all operations of the document, as in "GET /nodes".
func (d *Document) Operations() []string {
	var out []string
	paths, _ := d.doc["paths"].(map[string]any)
	for path, item := range paths {
		methods, _ := item.(map[string]any)
		for method := range methods {
			if method != "parameters" {
				out = append(out, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return out
}

// RoundTrip sends the request and validates the answer.
func (c *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	inner := c.Inner
	if inner == nil {
		inner = http.DefaultTransport
	}
	var sent []byte
	if r.Body != nil && r.GetBody != nil {
		again, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		if sent, err = io.ReadAll(again); err != nil {
			return nil, err
		}
	}
	resp, err := inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// The following bytes aren't HTTP, and have no end to wait for.
		if err := c.check(r, sent, resp, nil); err != nil {
			c.t.Errorf("%s %s switches protocols, which isn't as the OpenAPI document says: %v", r.Method, r.URL.Path, err)
		}
		return resp, nil
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := c.check(r, sent, resp, body); err != nil {
		c.t.Errorf("%s %s answers %d, which isn't as the OpenAPI document says: %v\n%.2000s", r.Method, r.URL.Path, resp.StatusCode, err, body)
	}
	return resp, nil
}

func (c *Transport) check(r *http.Request, sent []byte, resp *http.Response, body []byte) error {
	template, item := c.find(r.Method, r.URL.EscapedPath())
	if item == nil {
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
			return errors.New("there is no such operation")
		}
		return c.checkBody("/components/responses/Problem", resp, body)
	}
	op := "/paths/" + escape(template) + "/" + strings.ToLower(r.Method)
	where, err := c.response(op, resp.StatusCode)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.seen[r.Method+" "+template+" "+strconv.Itoa(resp.StatusCode)] = true
	c.mu.Unlock()
	if resp.StatusCode < 300 && len(sent) > 0 {
		if err := c.validate(op+"/requestBody/content/application~1json/schema", sent); err != nil {
			return errors.Wrap(err, "the request that it accepted")
		}
	}
	if err := c.checkHeaders(where, resp); err != nil {
		return err
	}
	return c.checkBody(where, resp, body)
}

// find returns the path's template and the operation.
func (d *Document) find(method, path string) (string, any) {
	paths, _ := d.doc["paths"].(map[string]any)
	for template, item := range paths {
		methods, _ := item.(map[string]any)
		if op := methods[strings.ToLower(method)]; op != nil && matches(template, path) {
			return template, op
		}
	}
	return "", nil
}

func matches(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if !strings.HasPrefix(want[i], "{") && want[i] != have[i] {
			return false
		}
	}
	return true
}

// response is the pointer to the description of an answer of that status.
func (d *Document) response(op string, status int) (string, error) {
	exact := strconv.Itoa(status)
	for _, key := range []string{exact, exact[:1] + "XX"} {
		at := op + "/responses/" + key
		described, ok := d.at(at).(map[string]any)
		if !ok {
			continue
		}
		if ref, ok := described["$ref"].(string); ok {
			return strings.TrimPrefix(ref, "#"), nil
		}
		return at, nil
	}
	return "", errors.Errorf("status %d isn't described", status)
}

func (c *Transport) checkHeaders(where string, resp *http.Response) error {
	described, _ := c.at(where).(map[string]any)
	headers, _ := described["headers"].(map[string]any)
	for name, h := range headers {
		at := where + "/headers/" + name
		one, _ := h.(map[string]any)
		if ref, ok := one["$ref"].(string); ok {
			at = strings.TrimPrefix(ref, "#")
			one, _ = c.at(at).(map[string]any)
		}
		value := resp.Header.Get(name)
		if value == "" {
			if one["required"] == true {
				return errors.Errorf("header %s is missing", name)
			}
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := c.validate(at+"/schema", quoted); err != nil {
			return errors.Wrapf(err, "header %s", name)
		}
	}
	return nil
}

func (c *Transport) checkBody(where string, resp *http.Response, body []byte) error {
	described, _ := c.at(where).(map[string]any)
	content, _ := described["content"].(map[string]any)
	if content == nil {
		if len(body) > 0 {
			return errors.New("it has a body, and none is described")
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return errors.Wrap(err, "Content-Type")
	}
	if content[kind] == nil {
		return errors.Errorf("content type %q isn't described", kind)
	}
	if kind == "text/plain" {
		return nil
	}
	return c.validate(where+"/content/"+escape(kind)+"/schema", body)
}

func (d *Document) validate(pointer string, body []byte) error {
	schema, err := d.schema(pointer)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return errors.Wrap(err, "it isn't JSON")
	}
	return schema.Validate(value)
}

func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.schemas[pointer]; ok {
		return s, nil
	}
	tokens := strings.Split(pointer, "/")
	for i := range tokens {
		tokens[i] = url.PathEscape(tokens[i])
	}
	s, err := d.compiler.Compile(location + "#" + strings.Join(tokens, "/"))
	if err == nil {
		d.schemas[pointer] = s
	}
	return s, err
}

// at returns the value at a JSON pointer.
func (d *Document) at(pointer string) any {
	var here any = d.doc
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		object, _ := here.(map[string]any)
		here = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return here
}

func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}
