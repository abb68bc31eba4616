// A client of the HTTP API on code that openapi-generator makes: see README.md. Prints what expected.txt has.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"

	"mortise.local/example/generated/api"
)

const collection = "/api/demo/v2/artist"

func main() {
	log.SetFlags(0)
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: address()}}
	client := api.NewAPIClient(configuration)
	ctx := withToken(secret("MORTISE_TOKEN_FILE"))

	version, _, err := client.ServerAPI.Version(ctx).Execute()
	check(err)
	fmt.Println("server:", version.Name)
	described, _, err := client.ServerAPI.TypesGet(ctx, "demo.v2.Artist").Execute()
	check(err)
	fmt.Println("type:", described.Name, described.Scope)

	change(ctx, client)
	readLists(ctx, client)
	meetErrors(ctx, client)
	watch(ctx, client)
	for _, title := range []string{"deleted", "deleted again"} {
		answer, err := client.DemoV2ArtistAPI.DemoV2ArtistDelete(ctx, "korn").Execute()
		check(err)
		fmt.Printf("%s: %d\n", title, answer.StatusCode)
	}
}

func address() string {
	if address := os.Getenv("MORTISE_HTTP"); address != "" {
		return address
	}
	return "http://127.0.0.1:8500"
}

func secret(variable string) string {
	token, err := os.ReadFile(os.Getenv(variable))
	check(err)
	return strings.TrimSpace(string(token))
}

func withToken(token string) context.Context {
	return context.WithValue(context.Background(), api.ContextAPIKeys, map[string]api.APIKey{"token": {Key: token}})
}

func check(err error) {
	var refused *api.GenericOpenAPIError
	if errors.As(err, &refused) {
		log.Fatalf("%v: %s", err, refused.Body())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func artist(name, genre string) api.WriteDemoV2Artist {
	data := api.HashicorpConsulInternalDemoV2Artist{Name: &name}
	if genre != "" {
		data.Genre = &api.HashicorpConsulInternalDemoV2ArtistGenre{String: &genre}
	}
	return *api.NewWriteDemoV2Artist(data)
}

// Prints the problem of a refused request.
func refused(title string, err error) {
	var refused *api.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatalf("%s: no problem: %v", title, err)
	}
	problem, ok := refused.Model().(api.MortiseProblem)
	if !ok {
		log.Fatalf("%s: no problem: %v %s", title, err, refused.Body())
	}
	show(title, problem)
}

// Prints the code of a problem, the last part of its type, and the fields at fault.
func show(title string, problem api.MortiseProblem) {
	parts := strings.Split(problem.Type, ":")
	line := fmt.Sprintf("%s: %d %s", title, problem.Status, parts[len(parts)-1])
	for _, violation := range problem.Violations {
		line += " " + violation.Path
	}
	fmt.Println(line)
}

func change(ctx context.Context, client *api.APIClient) {
	artists := client.DemoV2ArtistAPI
	korn, _, err := artists.DemoV2ArtistWrite(ctx, "korn").WriteDemoV2Artist(artist("Korn", "")).Execute()
	check(err)
	fmt.Println("written:", *korn.Data.Name, *korn.Data.Genre.String)
	read, answer, err := artists.DemoV2ArtistRead(ctx, "korn").Execute()
	check(err)
	tag := answer.Header.Get("ETag")
	if tag != `"`+*korn.Version+`"` {
		log.Fatal("the tag is not the version: ", tag)
	}
	fmt.Println("read:", *read.Data.Name, "as written")
	// To the generated client this answer is an error.
	_, answer, err = artists.DemoV2ArtistRead(ctx, "korn").IfNoneMatch(tag).Execute()
	if err == nil {
		log.Fatal("an answer without a body is no error")
	}
	fmt.Println("not modified:", answer.StatusCode)

	// A change of the version that was read, and the same once more.
	metal := artist("Korn", "GENRE_METAL")
	changed, _, err := artists.DemoV2ArtistWrite(ctx, "korn").WriteDemoV2Artist(metal).IfMatch(tag).Execute()
	check(err)
	fmt.Println("changed:", *changed.Data.Genre.String)
	_, _, err = artists.DemoV2ArtistWrite(ctx, "korn").WriteDemoV2Artist(metal).IfMatch(tag).Execute()
	refused("old tag", err)
	_, _, err = artists.DemoV2ArtistWrite(ctx, "korn").WriteDemoV2Artist(metal).Version(*korn.Version).Execute()
	refused("old version", err)
	_, _, err = artists.DemoV2ArtistWrite(ctx, "korn").WriteDemoV2Artist(metal).IfNoneMatch("*").Execute()
	refused("no replacing", err)

	patch := map[string]any{"data": map[string]any{"groupMembers": map[string]string{"drums": "David"}}}
	patched, _, err := artists.DemoV2ArtistPatch(ctx, "korn").RequestBody(patch).Execute()
	check(err)
	fmt.Println("patched:", patched.Data.GroupMembers["drums"], *patched.Data.Genre.String)
	title, year := "Old", int32(1800)
	old := api.NewWriteDemoV2Album(api.HashicorpConsulInternalDemoV2Album{Title: &title, YearOfRelease: &year})
	dry, _, err := client.DemoV2AlbumAPI.DemoV2AlbumValidate(ctx, "old").WriteDemoV2Album(*old).Execute()
	check(err)
	fmt.Println("dry run:", dry.Warnings[0].Path)
	created, answer, err := artists.DemoV2ArtistCreate(ctx).WriteDemoV2Artist(artist("ABBA", "")).GenerateName("abba-").Execute()
	check(err)
	fmt.Println("created:", answer.StatusCode, (*created.Id.Name)[:5])
	odd, unknown := artist("Odd", ""), "wD4H"
	odd.Data.Unknown = &unknown
	written, _, err := artists.DemoV2ArtistWrite(ctx, "odd").WriteDemoV2Artist(odd).Execute()
	check(err)
	fmt.Println("unknown field:", *written.Data.Unknown)
	_, err = artists.DemoV2ArtistDelete(ctx, "odd").Execute()
	check(err)
	for name, title := range map[string]string{"doors": "Doors", "eels": "Eels"} {
		_, _, err := artists.DemoV2ArtistWrite(ctx, name).WriteDemoV2Artist(artist(title, "")).Execute()
		check(err)
	}
}

func readLists(ctx context.Context, client *api.APIClient) {
	artists := client.DemoV2ArtistAPI
	listed, _, err := artists.DemoV2ArtistList(ctx).NamePrefix("d").Execute()
	check(err)
	fmt.Println("listed:", names(listed.Resources))
	var all []api.ResourceDemoV2Artist
	request, pages := artists.DemoV2ArtistList(ctx).OrderBy("data.name").PageSize(2), 0
	for {
		page, _, err := request.Execute()
		check(err)
		pages++
		all = append(all, page.Resources...)
		if page.NextPageToken == nil {
			break
		}
		request = request.PageToken(*page.NextPageToken)
	}
	fmt.Println("pages:", pages, names(all))
	found, _, err := artists.DemoV2ArtistList(ctx).Filter(`data.genre = "GENRE_METAL"`).Explain("true").Execute()
	check(err)
	fmt.Println("found:", names(found.Resources), found.Plan.Access)
}

func names(artists []api.ResourceDemoV2Artist) string {
	var names []string
	for _, artist := range artists {
		names = append(names, *artist.Data.Name)
	}
	return strings.Join(names, " ")
}

func meetErrors(ctx context.Context, client *api.APIClient) {
	artists := client.DemoV2ArtistAPI
	nameless := *api.NewWriteDemoV2Artist(api.HashicorpConsulInternalDemoV2Artist{})
	_, _, err := artists.DemoV2ArtistWrite(ctx, "x").WriteDemoV2Artist(nameless).Execute()
	refused("without a name", err)
	_, _, err = artists.DemoV2ArtistWrite(ctx, "x").WriteDemoV2Artist(artist("X", "GENRE_NOISE")).Execute()
	refused("unknown genre", err)
	_, _, err = artists.DemoV2ArtistList(ctx).Filter("data.nome =").Execute()
	refused("wrong filter", err)
	_, _, err = artists.DemoV2ArtistRead(ctx, "nothing").Execute()
	refused("missing", err)
	_, _, err = artists.DemoV2ArtistPatch(ctx, "nothing").RequestBody(map[string]any{"data": map[string]any{"name": "X"}}).Execute()
	refused("missing, patched", err)
	_, _, err = artists.DemoV2ArtistWrite(ctx, "x").WriteDemoV2Artist(artist(strings.Repeat("x", 1<<20), "")).Execute()
	refused("too large", err)

	_, _, err = artists.DemoV2ArtistRead(context.Background(), "korn").Execute()
	refused("no token", err)
	_, _, err = artists.DemoV2ArtistRead(withToken("unknown"), "korn").Execute()
	refused("unknown token", err)
	reader := withToken(secret("MORTISE_READER_FILE"))
	read, _, err := artists.DemoV2ArtistRead(reader, "korn").Execute()
	check(err)
	fmt.Println("reader reads:", *read.Data.Name)
	_, err = artists.DemoV2ArtistDelete(reader, "korn").Execute()
	refused("reader deletes", err)

	// The document has no such operations.
	unlike("wrong method", http.MethodPut, collection, "{}", "application/json")
	unlike("wrong format", http.MethodPut, collection+"/x", "a,b", "text/csv")
	unlike("no path", http.MethodGet, "/api/demo/v2/artists", "", "")
}

// Sends a request without the generated client, with its model of a problem.
func unlike(title, method, path, body, media string) {
	answer := send(method, path, body, media)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(err)
	var problem api.MortiseProblem
	check(json.Unmarshal(text, &problem))
	show(title, problem)
}

func send(method, path, body, media string) *http.Response {
	request, err := http.NewRequest(method, address()+path, strings.NewReader(body))
	check(err)
	request.Header.Set("X-Consul-Token", secret("MORTISE_TOKEN_FILE"))
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	answer, err := http.DefaultClient.Do(request)
	check(err)
	return answer
}

// The operation of the generated client reads an answer to its end, which a watch does not have. The HTTP library streams.
func watch(ctx context.Context, client *api.APIClient) {
	answer := send(http.MethodGet, collection+"/_watch?"+url.Values{"name_prefix": {"e"}}.Encode(), "", "")
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	event(lines)
	event(lines)
	artists := client.DemoV2ArtistAPI
	_, _, err := artists.DemoV2ArtistWatch(ctx).Execute()
	refused("second watch", err)
	_, _, err = artists.DemoV2ArtistWrite(ctx, "eels").WriteDemoV2Artist(artist("Eels", "GENRE_INDIE")).Execute()
	check(err)
	event(lines)
	_, err = artists.DemoV2ArtistDelete(ctx, "eels").Execute()
	check(err)
	event(lines)
}

// Prints the next event.
func event(lines *bufio.Scanner) {
	fields := map[string]string{}
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok {
			fields[name] = value
		} else if fields["event"] != "" {
			break
		}
	}
	line := "event: " + fields["event"]
	if fields["event"] != "end-of-snapshot" {
		var found api.ResourceDemoV2Artist
		check(json.Unmarshal([]byte(fields["data"]), &found))
		line += fmt.Sprintf(" %s %s", *found.Id.Name, *found.Data.Genre.String)
	}
	fmt.Println(line)
}
