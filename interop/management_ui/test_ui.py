"""Debian's RabbitMQ management UI against our API: every tab, every kind of page, every action.

Each step fails when a script of the page failed, a request was refused, or the page shows an error (Ui.check); what an
action did is asked of the API.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from interop.management.doors import Doors
from interop.management_ui.ui import Ui
from interop.patience import PATIENCE_S, eventually

Unique = Callable[[str], str]


def named(doors: Doors, path: str) -> list[str]:
    found: Any = doors.get(path)
    return [each["name"] for each in found]


def read(doors: Doors, path: str) -> Any:
    return doors.get(path)


@contextmanager
def client(doors: Doors, name: str, queue: str) -> Iterator[BlockingChannel]:
    """A client that publishes, consumes and holds a message."""
    with doors.connect(name) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=5)
        channel.confirm_delivery()
        channel.queue_declare(queue, arguments={"x-max-priority": 3})
        channel.basic_consume(queue, lambda *_: None, consumer_tag="reader")
        for number in range(3):
            channel.basic_publish("", queue, b"m%d" % number)
        connection.process_data_events(0)
        yield channel


def test_what_goes_wrong_is_noticed(ui: Ui) -> None:
    """Else all that follows would say nothing."""
    for script in (
        "setTimeout(() => { throw new Error('of a script') })",
        "format('overview', {})",
        "sync_get('/queues/%2F/never-was')",
        "debug('seen')",
        "show_popup('warn', 'refused')",
    ):
        ui.driver.execute_script(script)
        with pytest.raises(AssertionError):
            ui.wait(lambda: ui.check(), "an error is noticed")
        ui.start_over()


# Looking


def test_every_tab(ui: Ui, doors: Doors, unique: Unique) -> None:
    name = unique("shown")
    with client(doors, "looked at", name):
        for tab, words in (
            ("Connections", ("All connections", "looked at", "running")),
            ("Channels", ("All channels", "Prefetch")),
            ("Exchanges", ("amq.topic", "(AMQP default)", "Add a new exchange")),
            ("Queues", (name, "Add a new queue")),
            ("Admin", ("All users", "guest", "administrator", "Add a user")),
            ("Virtual Hosts", ("All virtual hosts", "Add a new virtual host")),
            ("Feature Flags", ("All Feature Flags", "quorum_queue")),
            ("Policies", ("User policies", "Operator policies")),
            ("Limits", ("Virtual host Limits", "User Limits")),
            ("Cluster", ("Cluster name",)),
            ("Users", ("All users",)),
            ("Overview", ("Totals", "Churn statistics", "Ports and contexts", "Export definitions")),
        ):
            ui.open_tab(tab, *words)
            ui.driver.execute_script("partial_update()")
            ui.settle()
        doors.do("DELETE", f"/queues/%2F/{name}")


def test_the_node(ui: Ui, doors: Doors) -> None:
    node = read(doors, "/overview")["node"]
    ui.go("#/")
    ui.click(node, "Node " + node, "Process statistics", "Memory details", "Advanced")
    for button in ui.driver.find_elements(By.CSS_SELECTOR, ".update-manual"):
        button.click()
        ui.settle()
    ui.sees("Total")


def test_options_of_pages(ui: Ui) -> None:
    """Charts of other times, other columns, help."""
    ui.go("#/")
    ui.driver.find_element(By.CSS_SELECTOR, ".help").click()
    ui.wait(lambda: ui.driver.find_elements(By.CSS_SELECTOR, ".form-popup-help"), "help is shown")
    ui.driver.find_element(By.CSS_SELECTOR, ".form-popup-help span").click()
    for range_of_time in ("Last ten minutes", "Last hour", "Last minute"):
        ui.driver.find_element(By.CSS_SELECTOR, ".popup-options-link").click()
        ui.sees(range_of_time)
        ui.driver.find_element(By.XPATH, f"//label[contains(., '{range_of_time}')]/input").click()
        ui.settle()
        ui.driver.find_element(By.CSS_SELECTOR, ".form-popup-options span").click()
        ui.wait(lambda: not ui.driver.find_elements(By.CSS_SELECTOR, ".form-popup-options"), "the options are gone")
    for tab in ("Queues", "Exchanges", "Connections", "Channels"):
        ui.go(f"#/{tab.lower()}")
        for link in ui.driver.find_elements(By.CSS_SELECTOR, "#main .popup-options-link[type=columns]"):
            link.click()
            ui.wait(lambda: ui.driver.find_elements(By.CSS_SELECTOR, ".form-popup-options"), "columns can be chosen")
            for box in ui.driver.find_elements(By.CSS_SELECTOR, ".form-popup-options input[type=checkbox]"):
                if not box.is_selected():
                    box.click()
            ui.settle()
            ui.driver.find_element(By.CSS_SELECTOR, ".form-popup-options span").click()


def test_long_lists(ui: Ui, doors: Doors, unique: Unique) -> None:
    """Pages, filters and order."""
    start = unique("many")
    names = [f"{start}-{number}" for number in range(7)]
    for name in names:
        doors.do("PUT", f"/queues/%2F/{name}", {"durable": False})
    try:
        ui.go("#/queues", *names)
        ui.type("queues-name", f"{start}-[0-5]\n")
        ui.misses(names[0])
        ui.driver.find_element(By.ID, "queues-filter-regex-mode").click()
        ui.sees(*names[:6])
        ui.misses(names[6])
        ui.type("queues-pagesize", "5\n")
        ui.misses(names[5])
        Select(ui.driver.find_element(By.ID, "queues-page")).select_by_index(1)
        ui.sees(names[5])
        ui.misses(names[0])
        ui.driver.find_element(By.CSS_SELECTOR, 'a.sort[sort="name"]').click()
        ui.settle()
        ui.sees(names[5])
    finally:
        ui.start_over()
    for name in names:
        doors.do("DELETE", f"/queues/%2F/{name}")


# Connections and channels


def test_closing_a_connection(ui: Ui, doors: Doors, unique: Unique) -> None:
    queue, name = unique("held"), unique("to be closed")
    with client(doors, name, queue) as channel:
        (found,) = [each for each in read(doors, "/connections") if each.get("user_provided_name") == name]
        ui.go("#/connections", name)
        address = f"{found['name']} (1)".replace("%", "%25").replace(">", "%3E")
        ui.go(f"#/channels/{address}", "Channel:", "reader", queue, "Messages unacknowledged")
        ui.go("#/connections")
        ui.click(found["name"].split(" ")[0], "Client properties", "Pika", "Close this connection", "Heartbeat")
        ui.submit("#/connections", "delete", reason="because the test says so")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            channel.connection.process_data_events(PATIENCE_S)
        assert closed.value.reply_code == 320
        assert "because the test says so" in closed.value.reply_text
        eventually(lambda: found["name"] not in named(doors, "/connections"), "the connection is gone")
        ui.misses(name)
    doors.do("DELETE", f"/queues/%2F/{queue}")


# Queues and exchanges


def test_a_queue(ui: Ui, doors: Doors, unique: Unique) -> None:
    name = unique("orders/queue")
    path = f"/queues/%2F/{name.replace('/', '%2F')}"
    ui.go("#/queues")
    form = ui.form("#/queues", "put")
    ui.add_argument(form, "x-max-length", "100")
    ui.submit("#/queues", "put", name=name, durable="true")
    ui.sees(name)
    queue = read(doors, path)
    assert (queue["durable"], queue["arguments"]) == (True, {"x-max-length": 100, "x-queue-type": "classic"})

    ui.click(name, "Queue " + name, "Add binding to this queue", "Publish message", "Get messages", "Move messages")
    ui.submit("#/bindings", "post", source="amq.topic", routing_key="order.#")
    ui.sees("order.#")
    assert [each["routing_key"] for each in read(doors, f"{path}/bindings")] == [name, "order.#"]

    form = ui.form("#/exchanges/publish", "post")
    ui.fill(form, "headers_1_mfkey", "customer")
    ui.fill(form, "headers_1_mfvalue", "ann")
    ui.fill(form, "props_1_mfkey", "content_type")
    ui.fill(form, "props_1_mfvalue", "text/plain")
    ui.submit("#/exchanges/publish", "post", delivery_mode="2", payload="two <b>eggs</b>")
    ui.close_popup("Message published.")
    ui.submit("#/exchanges/publish", "post", payload="AP8=", payload_encoding="base64")
    ui.close_popup("Message published.")

    ui.submit("#/queues/get", "post", count="2", ackmode="ack_requeue_true")
    ui.sees("Message 2", "two <b>eggs</b>", "customer:", "ann", "text/plain", "AP8=")
    (first, second) = read(doors, f"{path}/messages")["items"]
    assert (first["payload"], first["properties"]["headers"]) == ("two <b>eggs</b>", {"customer": "ann"})
    assert second["payload_encoding"] == "base64"
    ui.submit("#/queues/get", "post", count="1", ackmode="ack_requeue_false")
    ui.wait(lambda: read(doors, path)["messages"] == 1, "one message is left")
    ui.submit("#/queues", "delete", {"mode": "purge"})
    ui.close_popup("Queue purged")
    assert read(doors, path)["messages"] == 0
    ui.submit("#/queues/get", "post", count="1")
    ui.close_popup("Queue is empty")

    ui.submit("#/bindings", "delete", {"properties_key": "order.%23"})
    ui.misses("order.#")
    assert [each["routing_key"] for each in read(doors, f"{path}/bindings")] == [name]
    ui.submit("#/queues", "delete", {"mode": "delete"})
    ui.sees("All queues")
    ui.misses(name)
    assert name not in named(doors, "/queues")


def test_a_quorum_queue(ui: Ui, doors: Doors, unique: Unique) -> None:
    name = unique("quorum")
    ui.go("#/queues")
    Select(ui.driver.find_element(By.NAME, "queuetype")).select_by_value("quorum")
    ui.settle()
    ui.open_sections()
    ui.submit("#/queues", "put", name=name)
    ui.sees(name)
    assert read(doors, f"/queues/%2F/{name}")["type"] == "quorum"
    ui.click(name, "Queue " + name, "quorum", "Dead-lettered")
    ui.submit("#/queues", "delete", {"mode": "delete"})
    ui.misses(name)
    Select(ui.driver.find_element(By.NAME, "queuetype")).select_by_value("classic")
    ui.settle()


def test_an_exchange(ui: Ui, doors: Doors, unique: Unique) -> None:
    name, queue, other = unique("events"), unique("heard"), unique("echo")
    doors.do("PUT", f"/queues/%2F/{queue}", {})
    doors.do("PUT", f"/exchanges/%2F/{other}", {"type": "fanout"})
    ui.go("#/exchanges")
    ui.add_argument(ui.form("#/exchanges", "put"), "alternate-exchange", other)
    ui.submit("#/exchanges", "put", name=name, type="topic")
    ui.sees(name)
    assert read(doors, f"/exchanges/%2F/{name}")["arguments"] == {"alternate-exchange": other}

    ui.click(name, "Exchange: " + name, "Add binding from this exchange", "Publish message", "Delete this exchange")
    ui.submit("#/bindings", "post", destination_type="q", destination=queue, routing_key="a.*")
    ui.sees("a.*")
    ui.submit("#/bindings", "post", destination_type="e", destination=other, routing_key="b")
    ui.sees(other)
    bindings = read(doors, f"/exchanges/%2F/{name}/bindings/source")
    assert {(each["destination"], each["routing_key"]) for each in bindings} == {(queue, "a.*"), (other, "b")}
    ui.submit("#/exchanges/publish", "post", routing_key="a.x", payload="heard")
    ui.close_popup("Message published.")
    assert read(doors, f"/queues/%2F/{queue}")["messages"] == 1
    ui.submit("#/exchanges/publish", "post", routing_key="nowhere", payload="lost", expect="warn")
    ui.close_popup("Message published, but not routed.", kind="warn")
    ui.submit("#/bindings", "delete", {"destination": queue})
    ui.misses("a.*")
    ui.go(f"#/exchanges/%2F/{other}", name)
    ui.go(f"#/exchanges/%2F/{name}")
    ui.submit("#/exchanges", "delete")
    ui.misses(name)
    assert name not in named(doors, "/exchanges")
    ui.go("#/exchanges/%2F/amq.default", "(AMQP default)", "implicitly bound")
    for path in (f"/queues/%2F/{queue}", f"/exchanges/%2F/{other}"):
        doors.do("DELETE", path)


# Admin


def test_policies(ui: Ui, doors: Doors, unique: Unique) -> None:
    name, cap, queue = unique("short"), unique("cap"), unique("short")
    doors.do("PUT", f"/queues/%2F/{queue}", {})
    ui.go("#/policies")
    ui.add_argument(ui.form("#/policies", "put"), "max-length", "7")
    ui.submit("#/policies", "put", name=name, pattern="^short", apply__to="queues", priority="3")
    ui.sees(name, "^short")
    policy = read(doors, f"/policies/%2F/{name}")
    assert (policy["definition"], policy["priority"], policy["apply-to"]) == ({"max-length": 7}, 3, "queues")
    ui.add_argument(ui.form("#/operator_policies", "put"), "message-ttl", "60000")
    ui.submit("#/operator_policies", "put", name=cap, pattern=".*")
    ui.sees(cap)
    assert read(doors, f"/operator-policies/%2F/{cap}")["definition"] == {"message-ttl": 60000}
    ui.go(f"#/queues/%2F/{queue}", name, cap, "Effective policy definition", "max-length")
    ui.go("#/policies")
    ui.submit("#/operator_policies", "delete", {"name": cap})
    ui.misses(cap)
    ui.click(name, "Policy: " + name, "max-length", "Delete this policy")
    ui.submit("#/policies", "delete")
    ui.misses(name)
    assert not {name, cap} & {*named(doors, "/policies"), *named(doors, "/operator-policies")}
    doors.do("DELETE", f"/queues/%2F/{queue}")


def test_users(ui: Ui, doors: Doors, unique: Unique) -> None:
    name = unique("till")
    ui.go("#/users")
    ui.submit("#/users-add", "put", username=name, password="one", password_confirm="one", tags="monitoring")
    ui.sees(name, "monitoring")
    assert read(doors, f"/users/{name}")["tags"] == ["monitoring"]
    assert doors.ask("/whoami", auth=(name, "one")).status_code == 200

    ui.click(name, "User: " + name, "Permissions", "Topic permissions", "Update this user", "Delete this user")
    ui.submit("#/permissions", "put", configure="^mine", write="", read=".*")
    ui.sees("^mine")
    permission = {"user": name, "vhost": "/", "configure": "^mine", "write": "", "read": ".*"}
    assert read(doors, f"/users/{name}/permissions") == [permission]
    ui.submit("#/topic-permissions", "put", exchange="amq.topic", write="^a", read="^b")
    ui.sees("^a", "^b")
    topic = {"user": name, "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert read(doors, f"/users/{name}/topic-permissions") == [topic]
    ui.submit("#/topic-permissions", "delete")
    ui.misses("^a")
    ui.submit("#/permissions", "delete")
    ui.misses("^mine")
    assert read(doors, f"/users/{name}/permissions") == read(doors, f"/users/{name}/topic-permissions") == []

    ui.submit("#/users-modify", "put", password="two", password_confirm="two", tags="management,policymaker")
    ui.sees("All users")
    assert read(doors, f"/users/{name}")["tags"] == ["management", "policymaker"]
    assert doors.ask("/whoami", auth=(name, "two")).status_code == 200
    ui.click(name, "User: " + name)
    ui.submit("#/users", "delete")
    ui.sees("All users")
    ui.misses(name)
    assert name not in named(doors, "/users")


def test_vhosts(ui: Ui, doors: Doors, unique: Unique) -> None:
    name, user = unique("shop"), unique("clerk")
    doors.do("PUT", f"/users/{user}", {"password": "pw", "tags": ""})
    ui.go("#/vhosts")
    ui.submit("#/vhosts", "put", name=name, description="for tests", tags="one,two")
    ui.sees(name)
    vhost = read(doors, f"/vhosts/{name}")
    assert (vhost["description"], vhost["tags"]) == ("for tests", ["one", "two"])
    ui.click(name, "Virtual Host: " + name, "Permissions", "Topic permissions", "Delete this vhost")
    ui.submit("#/permissions", "put", username=user, configure="", write="^w", read="")
    ui.sees(user, "^w")
    ui.submit("#/topic-permissions", "put", username=user, exchange="amq.topic", write="^t", read="")
    ui.sees("^t")
    assert [each["user"] for each in read(doors, f"/vhosts/{name}/topic-permissions")] == [user]

    # One vhost alone in lists, and a queue in it.
    Select(ui.driver.find_element(By.ID, "show-vhost")).select_by_value(name)
    ui.settle()
    ui.go("#/queues")
    ui.submit("#/queues", "put", vhost=name, name="till")
    ui.sees("till")
    assert named(doors, f"/queues/{name}") == ["till"]
    for place in ("#/exchanges", "#/connections", "#/channels"):
        ui.go(place)
    Select(ui.driver.find_element(By.ID, "show-vhost")).select_by_value("")
    ui.settle()

    ui.go(f"#/vhosts/{name}", "Virtual Host: " + name)
    ui.submit("#/permissions", "delete", {"username": user})
    ui.misses("^w")
    ui.submit("#/vhosts", "delete")
    ui.sees("All virtual hosts")
    ui.misses(name)
    assert name not in named(doors, "/vhosts")
    doors.do("DELETE", f"/users/{user}")


def test_limits(ui: Ui, doors: Doors) -> None:
    ui.go("#/limits")
    ui.submit("#/limits", "put", vhost="/", name="max-queues", value="1000")
    ui.sees("max-queues", "1000")
    assert read(doors, "/vhost-limits/%2F") == [{"vhost": "/", "value": {"max-queues": 1000}}]
    ui.submit("#/user-limits", "put", user="guest", name="max-channels", value="2000")
    ui.sees("max-channels", "2000")
    assert read(doors, "/user-limits/guest") == [{"user": "guest", "value": {"max-channels": 2000}}]
    ui.submit("#/user-limits", "delete", {"user": "guest"})
    ui.submit("#/limits", "delete", {"vhost": "/"})
    ui.misses("1000")
    ui.misses("2000")
    assert read(doors, "/vhost-limits") == read(doors, "/user-limits") == []


def test_the_cluster(ui: Ui, doors: Doors) -> None:
    before = read(doors, "/cluster-name")["name"]
    for name in ("hive", before):
        ui.go("#/cluster-name")
        ui.submit("#/cluster-name", "put", name=name)
        ui.sees("Cluster " + name)
        assert read(doors, "/cluster-name") == {"name": name}


def test_statistics_are_reset(ui: Ui, doors: Doors) -> None:
    ui.go("#/")
    for action in ("#/reset_node", "#/reset"):
        ui.submit(action, "delete")
    ui.sees("Totals")


def test_definitions(ui: Ui, doors: Doors, unique: Unique, tmp_path: Path) -> None:
    queue = unique("kept")
    doors.do("PUT", f"/queues/%2F/{queue}", {"durable": True})
    ui.go("#/", "Export definitions", "Import definitions")
    file = ui.downloads / "definitions.json"
    box = ui.driver.find_element(By.ID, "download-filename")
    box.clear()
    box.send_keys(file.name)
    ui.driver.find_element(By.ID, "download-definitions").click()
    eventually(file.exists, "the definitions are downloaded")
    ui.settle()
    exported = json.loads(file.read_text())
    assert queue in [each["name"] for each in exported["queues"]]

    doors.do("DELETE", f"/queues/%2F/{queue}")
    ui.driver.find_element(By.NAME, "file").send_keys(str(file))
    ui.driver.find_element(By.CSS_SELECTOR, 'input[value="Upload broker definitions"]').click()
    ui.close_popup("Your definitions were imported successfully.")
    assert queue in named(doors, "/queues")
    doors.do("DELETE", f"/queues/%2F/{queue}")


# Others


def test_other_users(ui: Ui, doors: Doors, unique: Unique) -> None:
    """Logging out and in; what those see who may not see everything."""
    for tag, tabs in (
        ("management", ("Connections", "Channels", "Exchanges", "Queues", "Admin")),
        ("monitoring", ("Connections", "Channels", "Exchanges", "Queues", "Admin", "Overview")),
        ("policymaker", ("Queues", "Admin")),
    ):
        name = unique(tag)
        doors.do("PUT", f"/users/{name}", {"password": "pw", "tags": tag})
        doors.do("PUT", f"/permissions/%2F/{name}", {"configure": "", "write": "", "read": ".*"})
        ui.log_out()
        ui.log_in(name, "pw")
        for tab in tabs:
            ui.open_tab(tab)
        doors.do("DELETE", f"/users/{name}")
    ui.log_out()
    ui.log_in()


def test_a_wrong_password(ui: Ui) -> None:
    ui.log_out()
    ui.try_to_log_in("guest", "wrong")
    ui.wait(lambda: "Login failed" in ui.text, "the page says that the login failed")
    # The refused request is an error to Chromium, and meant.
    (said,) = [entry["message"] for entry in ui.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert "401" in said
    ui.log_in()
